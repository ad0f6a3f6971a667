"""A lease of the blocking client, and blocks together with the lease they are read under."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from kvstrata import reading
from kvstrata.views import Blocks, LeaseBase, LeaseState

if TYPE_CHECKING:
    from kvstrata.client import Client


class Lease(LeaseBase):
    """The right to read blocks for a while. Use it as a context manager, or release() it."""

    def __init__(self, client: Client, state: LeaseState) -> None:
        super().__init__(state)
        self._client = client

    def load(
        self, first: int = 0, count: int | None = None, *, timeout_s: float | None = None
    ) -> Blocks:
        """Brings blocks [first, first + count) (None: all that follow) into memory and shows
        them. LeaseExpired if the lease ended."""
        return self._client._run(lambda s: reading.load(s, self._state, first, count), timeout_s)

    def renew(self, lease_ms: int | None = None, *, timeout_s: float | None = None) -> None:
        """The lease ends ``lease_ms`` (None: the daemon's default) from now. LeaseExpired if it
        ended already."""
        self._client._run(lambda s: reading.renew(s, self._state, lease_ms), timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class HeldBlocks(Blocks):
    """Blocks with the lease they are read under: a context manager that releases it, and raises
    LeaseExpired on leaving if the bytes of a block were taken away meanwhile."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.check_unless_released()
        finally:
            self.release()
