"""What both clients are told when they are made, and how they wait for an absent daemon."""

from __future__ import annotations

import dataclasses
import os
import time

from kvstrata.address import TOKEN_VARIABLE
from kvstrata.errors import Unavailable

CLIENT_NAME = "kvstrata-python/0.1.0"
_SLOW_FAILURE_S = 0.1
_BACK_OFF_S = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Options of a client."""

    address: str | None = None  #: see kvstrata.address.resolve_address()
    token: str | None = None  #: the tenant's; None: the variable KVSTRATA_TOKEN, if it is set
    timeout_s: float = 30.0  #: of a request, unless one is given with it
    connect_timeout_s: float = 2.0  #: for connecting and saying hello, together
    shared_memory: bool = True  #: False: blocks come inside messages, as over TCP

    def effective_token(self) -> str | None:
        """The token to say hello with."""
        return self.token or os.environ.get(TOKEN_VARIABLE) or None

    def deadline(self, timeout_s: float | None) -> float:
        """When a request that begins now must be done, on the monotonic clock."""
        return time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)


class BackOff:
    """Keeps callers from waiting again and again for a daemon that does not answer: after an
    attempt to connect that failed slowly, further ones fail at once for a second. An attempt that
    failed at once (nobody listens) costs nothing and is made anew each time."""

    def __init__(self) -> None:
        self._until = 0.0
        self._message = ""

    def check(self) -> None:
        """Unavailable while it is too early to try again."""
        if time.monotonic() < self._until:
            raise Unavailable(self._message)

    def failed(self, error: Unavailable, began: float) -> None:
        """An attempt that began then failed now."""
        now = time.monotonic()
        if now - began > _SLOW_FAILURE_S:
            self._until = now + _BACK_OFF_S
            self._message = str(error)
