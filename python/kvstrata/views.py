"""What a lease is to both clients: its state, and the leased blocks as numpy and torch views."""

from __future__ import annotations

import ctypes
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from kvstrata.errors import Error, InvalidArgument, LeaseExpired
from kvstrata.protocol import Bytes

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseHandle:
    """What another process of the tenant needs to share a lease: pass it on (it pickles) and call
    ``attach`` there. Whoever has it can read the blocks: keep ``secret`` secret."""

    id: int
    secret: bytes = dataclasses.field(repr=False)


class _SessionOfLease(Protocol):
    @property
    def is_open(self) -> bool: ...
    def release_later(self, lease_id: int) -> None: ...
    @property
    def send_outbox(self) -> Callable[[], None]: ...


class LeaseState:
    """A lease as its connection knows it. It ends by release, by its deadline (kept on the
    monotonic clock) or with the connection; the daemon frees it then."""

    def __init__(
        self,
        session: _SessionOfLease,
        handle: LeaseHandle,
        blocks: int,
        tiers: bytes,
        expires_in_ms: int,
        expected_tokens: npt.NDArray[np.uint32] | None,
        block_tokens: int,
    ) -> None:
        self.session = session
        self.handle = handle
        self.blocks = blocks
        self.tiers = tiers
        self.expected_tokens = expected_tokens  # of all blocks; None: not known
        self.block_tokens = block_tokens
        self.is_released = handle.id == 0
        self._deadline = time.monotonic() + expires_in_ms / 1000

    def renewed(self, expires_in_ms: int) -> None:
        """The daemon moved the deadline."""
        self._deadline = time.monotonic() + expires_in_ms / 1000

    def expires_in_s(self) -> float:
        """Seconds until the lease ends by itself; 0 if it ended."""
        if self.is_released or not self.session.is_open:
            return 0.0
        return max(0.0, self._deadline - time.monotonic())

    def release(self) -> None:
        """Gives the lease back, once. Nothing is waited for: what this connection asks next sees
        it done."""
        if not self.is_released:
            self.is_released = True
            self.session.release_later(self.handle.id)
            self.session.send_outbox()

    def check(self) -> None:
        """LeaseExpired if the lease was released or its connection is gone. The deadline is not
        looked at: the slots' generations tell whether the bytes are still there."""
        if self.is_released and self.handle.id:
            raise LeaseExpired("the lease was released")
        if not self.session.is_open:
            raise LeaseExpired("the lease ended with its connection to the daemon")

    def __del__(self) -> None:
        if not self.is_released:  # let the daemon have it back before its deadline
            self.session.release_later(self.handle.id)


class LeaseBase:
    """What a lease tells of itself without asking the daemon."""

    def __init__(self, state: LeaseState) -> None:
        self._state = state

    @property
    def blocks(self) -> int:
        """Blocks found, from the start of what was looked up; 0: nothing, and nothing is held."""
        return self._state.blocks

    @property
    def tokens(self) -> int:
        """Tokens these blocks cover."""
        return self._state.blocks * self._state.block_tokens

    @property
    def tiers(self) -> bytes:
        """Where each block was found: 1 host, 2 disk."""
        return self._state.tiers

    @property
    def handle(self) -> LeaseHandle:
        """For another process of this tenant: see :meth:`Client.attach`."""
        return self._state.handle

    def expires_in_s(self) -> float:
        """Seconds until the lease ends by itself; 0 if it ended."""
        return self._state.expires_in_s()

    def release(self) -> None:
        """Gives the lease back, at once and without an error; views of its blocks are not valid
        any more."""
        self._state.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.blocks} blocks>"


class _Guard(Protocol):
    def check(self) -> None: ...


class BlockView:
    """One leased block: bytes in shared memory, or received bytes if the daemon is remote.

    Use it as a context manager for zero-copy work::

        with view as data:          # numpy uint8, read-only
            total = data.sum()
        # leaving the block raised LeaseExpired if the bytes were taken away meanwhile

    or take a checked copy with :meth:`copy` or :meth:`copy_to`. Any other access (:meth:`numpy`,
    :meth:`torch`) shows the memory as it is: trust what was computed from it only after
    :meth:`check` passed. A block that could not be read has :attr:`error` set, and every access
    raises it.
    """

    __slots__ = ("_data", "_guard", "_lease", "error", "tier", "xxh3")

    def __init__(
        self,
        data: Bytes | None,
        guard: _Guard | None,
        lease: LeaseState | None,
        error: Error | None,
        tier: int,
        xxh3: int,
    ) -> None:
        self._data = data
        self._guard = guard
        self._lease = lease
        self.error = error  #: why the block can't be read; None: it can
        self.tier = tier  #: where it was found: 1 host, 2 disk, 0 unknown
        self.xxh3 = xxh3  #: XXH3-64 of the bytes, as the daemon computed it

    @property
    def ok(self) -> bool:
        """True if the block has bytes."""
        return self.error is None

    @property
    def nbytes(self) -> int:
        """Bytes of the block; 0 if it could not be read."""
        return 0 if self._data is None else self._data.nbytes

    def check(self) -> None:
        """Raises LeaseExpired if the bytes may have been taken away, or :attr:`error`."""
        if self.error is not None:
            raise self.error
        if self._lease is not None:
            self._lease.check()
        if self._guard is not None:
            self._guard.check()

    def __enter__(self) -> Bytes:
        self.check()
        assert self._data is not None
        return self._data

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.check()

    def copy(self) -> Bytes:
        """The bytes in memory of your own, checked before and after. uint8 [nbytes]."""
        with self as data:
            return data.copy()

    def copy_to(self, out: npt.NDArray[Any]) -> None:
        """Copies the bytes into ``out`` (contiguous, of exactly this size), checked before and
        after: if it raises, what ``out`` holds means nothing."""
        with self as data:
            if not out.flags.c_contiguous or out.nbytes != data.nbytes:
                raise InvalidArgument(f"out must be contiguous and of {data.nbytes} bytes")
            np.copyto(out.reshape(-1).view(np.uint8), data)

    def numpy(
        self, dtype: npt.DTypeLike = np.uint8, shape: Sequence[int] = (-1,)
    ) -> npt.NDArray[Any]:
        """The memory as a read-only array of this type and shape, zero-copy. numpy has no
        bfloat16: take ``np.uint16`` for the bits, or :meth:`torch`."""
        self.check()
        assert self._data is not None
        return self._data.view(dtype).reshape(tuple(shape))

    def torch(self, dtype: torch.dtype, shape: Sequence[int] = (-1,)) -> torch.Tensor:
        """The memory as a tensor of this type and shape, zero-copy. torch knows no read-only
        tensors: writing to this one ends the process if the block lies in shared memory."""
        import torch

        self.check()
        assert self._data is not None
        source = (ctypes.c_uint8 * self._data.nbytes).from_address(self._data.ctypes.data)
        source._owner = self._data  # type: ignore[attr-defined]  # keeps the memory mapped
        return torch.frombuffer(source, dtype=dtype).reshape(tuple(shape))

    def __repr__(self) -> str:
        state = f"{self.nbytes} bytes" if self.error is None else repr(self.error)
        return f"<BlockView {state}>"


class Blocks(Sequence[BlockView]):
    """Blocks that were asked for, in order, those that can't be read included.

    ``usable`` counts the good ones from the start: of a prefix nothing after the first bad block
    may be used. :meth:`check` checks all usable ones at once, after zero-copy work on them.
    """

    def __init__(self, views: list[BlockView], lease: LeaseState | None) -> None:
        self._views = views
        self.lease_state = lease

    @overload
    def __getitem__(self, index: int) -> BlockView: ...
    @overload
    def __getitem__(self, index: slice) -> list[BlockView]: ...
    def __getitem__(self, index: int | slice) -> BlockView | list[BlockView]:
        return self._views[index]

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[BlockView]:
        return iter(self._views)

    @property
    def usable(self) -> int:
        """Blocks from the start that can be read."""
        for index, view in enumerate(self._views):
            if not view.ok:
                return index
        return len(self._views)

    @property
    def error(self) -> Error | None:
        """Why the first unusable block can't be read; None if all can."""
        usable = self.usable
        return self._views[usable].error if usable < len(self._views) else None

    def release(self) -> None:
        """Gives the lease back; the views are not valid any more."""
        if self.lease_state is not None:
            self.lease_state.release()

    def check(self) -> None:
        """LeaseExpired if the bytes of any usable block may have been taken away."""
        for view in self._views[: self.usable]:
            view.check()

    def check_unless_released(self) -> None:
        """As check(), for leaving a ``with`` block: who released early has checked already."""
        if self.lease_state is not None and not self.lease_state.is_released:
            self.check()
