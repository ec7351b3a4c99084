"""The client: ``hush.connect("https://…", token=…)`` returns a curator that asks a service.

It has the methods of a local curator: they take the same arguments, return the same `Answer`, `AccountView` and
`Release`, and raise the same errors with the same texts. Requests need only the standard library.

**Nothing is paid twice.** Every question goes with a request id, its own or the asker's. Should the connection break,
the same id is sent again, and the service gives the answer that was paid for. A service that is busy is asked again
later, for a while.

**Nothing travels in the clear.** A token goes over https, or to this very machine.
"""

from __future__ import annotations

from hush.client.curator import RemoteCurator, RemoteExplanation
from hush.client.transport import RemoteError

__all__ = ["RemoteCurator", "RemoteError", "RemoteExplanation", "connect"]


def connect(address: str, *, token: str, timeout: float = 300.0, certificates: str | None = None) -> RemoteCurator:
    """Return a curator that asks a service, as ``hush serve`` runs one.

    Parameters
    ----------
    address
        Where it is, such as ``https://hush.example``; ``http://`` only on this machine.
    token
        The text that the service showed once when the token was made.
    timeout
        How long to wait for each try, in seconds; a request without a response is sent up to four times.
    certificates
        A file of certificates to be trusted, where the service's own is not signed by a known authority.

    Examples
    --------
    >>> import hush
    >>> hush.connect("http://127.0.0.1:9", token="secret")
    Traceback (most recent call last):
    ...
    hush.client.transport.RemoteError: The service at 127.0.0.1 cannot be reached: Connection refused.
    """
    return RemoteCurator(address, token=token, timeout=timeout, certificates=certificates)
