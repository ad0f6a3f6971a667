"""Namespaces, leases and staging memory of the asyncio client. Every method is that of its blocking
namesake, awaited."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kvstrata import admin, reading, writing
from kvstrata.admin import TierChoice
from kvstrata.errors import NotFound
from kvstrata.keys import Extras, TokenIds
from kvstrata.namespaces import NamespaceBase, NamespaceState
from kvstrata.protocol import Buffer
from kvstrata.results import Changed, Explanation, Page, Present, PutResult, Removal, Verified
from kvstrata.views import Blocks, LeaseBase, LeaseState
from kvstrata.writing import BlockSource, PutOptions, Staged

if TYPE_CHECKING:
    from kvstrata.aio import AsyncClient


class AsyncNamespace(NamespaceBase):
    """As :class:`kvstrata.Namespace`, for asyncio."""

    def __init__(self, client: AsyncClient, state: NamespaceState) -> None:
        super().__init__(state)
        self._client = client

    async def refresh(self, *, timeout_s: float | None = None) -> int:
        """As :meth:`Namespace.refresh`."""
        return await self._client._run(self.state.refresh, timeout_s)

    # ---- finding and reading

    async def lookup(
        self,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        lease_ms: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncLease:
        """As :meth:`Namespace.lookup`."""
        selection = self.state.select(tokens, hashes, keys, extras)
        state = await self._client._run(
            lambda s: reading.lookup(s, self.state, selection, group, lease_ms), timeout_s
        )
        return AsyncLease(self._client, state)

    async def exists(
        self,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        timeout_s: float | None = None,
    ) -> Present:
        """As :meth:`Namespace.exists`."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return await self._client._run(
            lambda s: reading.exists(s, self.state, selection, group), timeout_s
        )

    async def get(
        self,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        prefix: bool | None = None,
        lease_ms: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncHeldBlocks:
        """As :meth:`Namespace.get`."""
        selection = self.state.select(tokens, hashes, keys, extras)
        as_prefix = keys is None if prefix is None else prefix
        blocks = await self._client._run(
            lambda s: reading.get(s, self.state, selection, group, as_prefix, lease_ms), timeout_s
        )
        return AsyncHeldBlocks(list(blocks), blocks.lease_state)

    # ---- storing

    async def put(
        self,
        tokens: TokenIds,
        blocks: Sequence[BlockSource],
        *,
        first_block: int = 0,
        extras: Extras | None = None,
        group: int = 0,
        durable: bool = False,
        ttl_ms: int | None = None,
        pinned: bool = False,
        busy_wait_s: float = 1.0,
        timeout_s: float | None = None,
    ) -> PutResult:
        """As :meth:`Namespace.put`."""
        new = writing.new_token_blocks(self.state, tokens, len(blocks), first_block, group, extras)
        options = PutOptions(durable, ttl_ms, pinned)
        return await self._client._run(
            lambda s: writing.put(s, new, blocks, options, busy_wait_s), timeout_s
        )

    async def reserve(
        self, blocks: int, *, group: int = 0, timeout_s: float | None = None
    ) -> AsyncStaging:
        """As :meth:`Namespace.reserve`."""
        staged = await self._client._run(
            lambda s: writing.stage_or_none(s, self.state, group, blocks), timeout_s
        )
        return AsyncStaging(self._client, self.state, blocks, group, staged)

    async def put_value(
        self,
        key: bytes,
        value: Buffer,
        *,
        durable: bool = False,
        ttl_ms: int | None = None,
        pinned: bool = False,
        busy_wait_s: float = 1.0,
        timeout_s: float | None = None,
    ) -> PutResult:
        """As :meth:`Namespace.put_value`."""
        return await self.put_values(
            [key],
            [value],
            durable=durable,
            ttl_ms=ttl_ms,
            pinned=pinned,
            busy_wait_s=busy_wait_s,
            timeout_s=timeout_s,
        )

    async def put_values(
        self,
        keys: Sequence[bytes],
        values: Sequence[Buffer],
        *,
        durable: bool = False,
        ttl_ms: int | None = None,
        pinned: bool = False,
        busy_wait_s: float = 1.0,
        timeout_s: float | None = None,
    ) -> PutResult:
        """As :meth:`Namespace.put_values`."""
        sizes = [memoryview(value).nbytes for value in values]
        new = writing.new_values(self.state, keys, sizes)
        options = PutOptions(durable, ttl_ms, pinned)
        return await self._client._run(
            lambda s: writing.put(s, new, values, options, busy_wait_s), timeout_s
        )

    async def get_value(self, key: bytes, *, timeout_s: float | None = None) -> bytes | None:
        """As :meth:`Namespace.get_value`."""
        async with await self.get(keys=[key], timeout_s=timeout_s) as blocks:
            if isinstance(blocks[0].error, NotFound):
                return None
            return blocks[0].copy().tobytes()

    # ---- looking after what is stored

    async def pin(
        self,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        pinned: bool = True,
        timeout_s: float | None = None,
    ) -> Changed:
        """As :meth:`Namespace.pin`."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return await self._client._run(
            lambda s: admin.pin(s, self.state, selection, group, pinned), timeout_s
        )

    async def set_ttl(
        self,
        ttl_ms: int,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        timeout_s: float | None = None,
    ) -> Changed:
        """As :meth:`Namespace.set_ttl`."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return await self._client._run(
            lambda s: admin.set_ttl(s, self.state, selection, group, ttl_ms), timeout_s
        )

    async def delete(
        self,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        descendants: bool = True,
        timeout_s: float | None = None,
    ) -> Removal:
        """As :meth:`Namespace.delete`."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return await self._client._run(
            lambda s: admin.delete(s, self.state, selection, group, descendants), timeout_s
        )

    async def clear(
        self,
        prefix: TokenIds | None = None,
        *,
        tier: TierChoice = "all",
        pinned: bool = False,
        group: int = 0,
        timeout_s: float | None = None,
    ) -> Removal:
        """As :meth:`Namespace.clear`."""
        selection = None if prefix is None else self.state.select(prefix, None)
        scope: admin.Scope = "namespace" if prefix is None else "prefix"
        return await self._client._run(
            lambda s: admin.clear(s, scope, tier, pinned, "", self.state, selection, group),
            timeout_s,
        )

    async def explain(
        self,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        timeout_s: float | None = None,
    ) -> Explanation:
        """As :meth:`Namespace.explain`."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return await self._client._run(
            lambda s: admin.explain(s, self.state, selection, group), timeout_s
        )

    async def list_blocks(
        self, *, after: bytes | None = None, limit: int = 1000, timeout_s: float | None = None
    ) -> Page:
        """As :meth:`Namespace.list_blocks`."""
        return await self._client._run(
            lambda s: admin.list_blocks(s, self.state, after, limit), timeout_s
        )

    async def inspect(
        self, block_hash: bytes, *, group: int = 0, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """As :meth:`Namespace.inspect`."""
        selection = self.state.select(None, [block_hash])
        return await self._client._run(
            lambda s: admin.inspect(s, self.state, selection, group), timeout_s
        )

    async def verify(
        self, *, after: bytes | None = None, limit: int = 1000, timeout_s: float | None = None
    ) -> Verified:
        """As :meth:`Namespace.verify`."""
        return await self._client._run(
            lambda s: admin.verify(s, self.state, after, limit), timeout_s
        )


class AsyncStaging:
    """As :class:`kvstrata.Staging`, for asyncio: an async context manager."""

    def __init__(
        self,
        client: AsyncClient,
        state: NamespaceState,
        blocks: int,
        group: int,
        staged: Staged | None,
    ) -> None:
        self._client = client
        self._state = state
        self._group = group
        self._staged = staged
        self.arrays = writing.staging_arrays(staged, blocks, state.block_bytes(group))

    async def commit(
        self,
        tokens: TokenIds,
        *,
        first_block: int = 0,
        extras: Extras | None = None,
        durable: bool = False,
        ttl_ms: int | None = None,
        pinned: bool = False,
        timeout_s: float | None = None,
    ) -> PutResult:
        """As :meth:`Staging.commit`."""
        arrays, self.arrays = self.arrays, []
        new = writing.new_token_blocks(
            self._state, tokens, len(arrays), first_block, self._group, extras
        )
        options = PutOptions(durable, ttl_ms, pinned)
        return await self._client._run(
            lambda s: writing.commit_staged(s, self._staged, arrays, new, options),
            timeout_s,
            repeatable=False,
        )

    def abort(self) -> None:
        """Gives the memory back. Nothing happens if it was committed."""
        self.arrays = []
        if self._staged is not None:
            self._staged.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()


class AsyncLease(LeaseBase):
    """As :class:`kvstrata.Lease`, for asyncio: an async context manager."""

    def __init__(self, client: AsyncClient, state: LeaseState) -> None:
        super().__init__(state)
        self._client = client

    async def load(
        self, first: int = 0, count: int | None = None, *, timeout_s: float | None = None
    ) -> Blocks:
        """As :meth:`Lease.load`."""
        return await self._client._run(
            lambda s: reading.load(s, self._state, first, count), timeout_s
        )

    async def renew(self, lease_ms: int | None = None, *, timeout_s: float | None = None) -> None:
        """As :meth:`Lease.renew`."""
        await self._client._run(lambda s: reading.renew(s, self._state, lease_ms), timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class AsyncHeldBlocks(Blocks):
    """As :class:`kvstrata.HeldBlocks`: an async context manager that releases the lease, and
    raises LeaseExpired on leaving if the bytes of a block were taken away meanwhile."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
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
