"""A whole secure sum in one process, step by step, with parties that can be lost on the way."""

from __future__ import annotations

import numpy as np

from hush.distributed import Aggregator, Party, Session, new_key

STEPS = ("advertise", "share", "mask", "confirm", "reveal")


class Play:
    """Parties, keys and an aggregator; ``values`` are each party's counters."""

    def __init__(
        self, values, *, dropouts=0, colluding=0, epsilon=1000, delta=None, sensitivity=1, names=None, **session
    ):
        self.values = np.asarray(values, dtype=np.int64)
        count, length = self.values.shape
        self.keys = {name: new_key() for name in names or [f"party-{i:03}" for i in range(count)]}
        self.aggregator_key, public = new_key()
        self.session = Session(
            name="play", parties={name: key[1] for name, key in self.keys.items()}, aggregator=public,
            dropouts=dropouts, colluding=colluding, length=length, epsilon=epsilon, delta=delta,
            sensitivity=sensitivity, **session,
        )  # fmt: skip
        self.again()

    def again(self):
        """Begin another run of the same session, with parties that have joined anew, and return the play."""
        self.parties = {
            name: Party(self.session, name=name, key=self.keys[name][0], values=row)
            for name, row in zip(self.keys, self.values, strict=True)
        }
        self.aggregator = Aggregator(self.session, key=self.aggregator_key)
        self.messages = []
        return self

    def alive(self, step, lost):
        """Return the parties that answer at a step, where ``lost`` says at which step each is lost."""
        return [name for name in self.parties if STEPS.index(lost.get(name, "reveal")) >= STEPS.index(step)
                and lost.get(name) != step]  # fmt: skip

    def run(self, lost=None):
        """Play all steps and return the noisy sum; ``lost`` maps parties to the step that they do not take."""
        lost = lost or {}
        heard = None
        takes = {
            "advertise": self.aggregator.roster, "share": self.aggregator.pieces, "mask": self.aggregator.survivors,
            "confirm": self.aggregator.confirmations, "reveal": self.aggregator.unmask,
        }  # fmt: skip
        for step in STEPS:
            answers = []
            for name in self.alive(step, lost):
                method = getattr(self.parties[name], step)
                if step == "advertise":
                    answers.append(method())
                else:
                    answers.append(method(heard[name] if isinstance(heard, dict) else heard))
            self.messages += answers
            heard = takes[step](answers)
        return heard
