"""Events of other libraries: a training run of Opacus, an event of Google's dp_accounting.

Nothing of those libraries is imported: an Opacus state is a dictionary, and dp_accounting's events are read by their
class names and fields. Their statements are trusted. Opacus' history is that of *Poisson* samples with clipped
gradients; a loader that shuffles batches instead (``poisson_sampling=False``) does not match the event, and both
libraries draw their noise as floats. A receipt for one of them therefore says "stated by the caller".

>>> state = {"mechanism": "rdp", "history": [(4.0, 0.01, 10_000)]}      # accountant.state_dict()
>>> from hush.accounting import compose
>>> round(float(compose([from_opacus(state)]).epsilon("1e-5")), 6)
0.946867
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hush.accounting.events import (
    ComposedEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PoissonLaplaceEvent,
    ZCDPEvent,
)
from hush.core import InvalidValueError, exact, integer
from hush.core.errors import UnknownEventError

_HINT = "Write the event by hand from hush.accounting, or give a bound as ApproximateDPEvent, ZCDPEvent or RenyiEvent."


def from_opacus(state: Mapping[str, Any]) -> Event:
    """Return the event of a training run from ``accountant.state_dict()``: (noise multiplier, sample rate, steps)."""
    history = state.get("history") if isinstance(state, Mapping) else None
    if not isinstance(history, Iterable) or isinstance(history, (str, bytes)):
        raise InvalidValueError(
            "state", got=state, allowed="what an Opacus accountant's state_dict() returns, with its history"
        )
    parts: list[tuple[Event, int]] = []
    for entry in history:
        if not isinstance(entry, (tuple, list)) or len(entry) != 3:
            raise InvalidValueError("history", got=entry, allowed="triples of noise multiplier, sample rate and steps")
        # A noise multiplier is σ over the clipping norm, so the sensitivity is 1.
        noise, rate, steps = entry
        parts.append((PoissonGaussianEvent(rate=rate, sigma=_noise(noise)), integer(steps, "steps", minimum=0)))
    return ComposedEvent(parts=parts)


def from_dp_accounting(event: Any) -> Event:
    """Return the same event in hush's vocabulary; an event without a counterpart is refused by name.

    >>> from_dp_accounting("no event of dp_accounting")
    Traceback (most recent call last):
    ...
    hush.core.errors.UnknownEventError: The 'event' parameter must be an event with a counterpart ...
    """
    kind = type(event).__name__
    match kind:
        case "NoOpDpEvent":
            return ComposedEvent(parts=[])
        case "GaussianDpEvent":
            return GaussianEvent(sigma=_noise(event.noise_multiplier))
        case "LaplaceDpEvent":
            return LaplaceEvent(scale=_noise(event.noise_multiplier))
        case "DiscreteLaplaceDpEvent":
            return DiscreteLaplaceEvent(parameter=event.noise_parameter, sensitivity=event.sensitivity)
        case "ZCDpEvent" if not event.xi:  # (ξ, ρ)-zCDP with ξ > 0 has no counterpart here
            return ZCDPEvent(rho=event.rho)
        case "ComposedDpEvent":
            return ComposedEvent(parts=[(from_dp_accounting(step), 1) for step in event.events])
        case "SelfComposedDpEvent":
            return ComposedEvent(parts=[(from_dp_accounting(event.event), integer(event.count, "count", minimum=0))])
        case "PoissonSampledDpEvent":
            return _sampled(event.event, event.sampling_probability)
    raise UnknownEventError("event", got=kind, allowed="an event with a counterpart in hush's vocabulary", hint=_HINT)


def _sampled(event: Any, rate: Any) -> Event:
    """Return a Poisson-sampled step; sampling of whole compositions has no counterpart."""
    kind = type(event).__name__
    if kind == "GaussianDpEvent":
        return PoissonGaussianEvent(rate=rate, sigma=_noise(event.noise_multiplier))
    if kind == "LaplaceDpEvent":
        return PoissonLaplaceEvent(rate=rate, scale=_noise(event.noise_multiplier))
    if kind == "NoOpDpEvent":
        return ComposedEvent(parts=[])
    raise UnknownEventError("event", got=f"a Poisson-sampled {kind}", allowed="Gaussian or Laplace noise", hint=_HINT)


def _noise(multiplier: Any) -> Any:
    """Refuse a run without noise: its loss is infinite."""
    if exact(multiplier, "noise_multiplier") <= 0:
        hint = "A step without noise is not private at all."
        raise InvalidValueError("noise_multiplier", got=multiplier, allowed="a positive number", hint=hint)
    return multiplier
