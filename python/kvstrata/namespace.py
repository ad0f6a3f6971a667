"""A registered namespace of the blocking client: where blocks are found and stored."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kvstrata import admin, reading, writing
from kvstrata.admin import TierChoice
from kvstrata.errors import NotFound
from kvstrata.keys import Extras, TokenIds
from kvstrata.lease import HeldBlocks, Lease
from kvstrata.namespaces import NamespaceBase, NamespaceState
from kvstrata.protocol import Buffer
from kvstrata.results import Changed, Explanation, Page, Present, PutResult, Removal, Verified
from kvstrata.writing import BlockSource, PutOptions, Staged

if TYPE_CHECKING:
    from kvstrata.client import Client


class Namespace(NamespaceBase):
    """Where blocks of one tenant, model, salt and adapter are found and stored.

    Blocks are named by exactly one of ``tokens`` (a sequence from its start, a partial last block
    is left out), ``hashes`` (of its blocks, in order) and, in a namespace without layer groups,
    ``keys``. ``extras`` are the extra keys (images, ...) that touch blocks, by block index.
    """

    def __init__(self, client: Client, state: NamespaceState) -> None:
        super().__init__(state)
        self._client = client

    def refresh(self, *, timeout_s: float | None = None) -> int:
        """After EpochChanged, once the new weights are loaded: stores and finds blocks under the
        new weight epoch, which is returned."""
        return self._client._run(self.state.refresh, timeout_s)

    # ---- finding and reading

    def lookup(
        self,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        lease_ms: int | None = None,
        timeout_s: float | None = None,
    ) -> Lease:
        """The longest stored prefix, held by a lease for ``lease_ms`` (None: 10 s)."""
        selection = self.state.select(tokens, hashes, keys, extras)
        state = self._client._run(
            lambda s: reading.lookup(s, self.state, selection, group, lease_ms), timeout_s
        )
        return Lease(self._client, state)

    def exists(
        self,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        timeout_s: float | None = None,
    ) -> Present:
        """What is stored now; nothing is held, so a moment later it may be gone."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return self._client._run(
            lambda s: reading.exists(s, self.state, selection, group), timeout_s
        )

    def get(
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
    ) -> HeldBlocks:
        """Finds, holds and reads blocks in one round trip: those up to the first miss, or with
        ``prefix=False`` (the default for keys) each for itself, missing ones as views whose
        ``error`` is NotFound. A context manager that releases them::

            with namespace.get(tokens) as blocks:
                for view in blocks: ...
        """
        selection = self.state.select(tokens, hashes, keys, extras)
        as_prefix = keys is None if prefix is None else prefix
        blocks = self._client._run(
            lambda s: reading.get(s, self.state, selection, group, as_prefix, lease_ms), timeout_s
        )
        return HeldBlocks(list(blocks), blocks.lease_state)

    # ---- storing

    def put(
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
        """Stores blocks ``first_block``, ``first_block + 1``, ... of the sequence ``tokens``,
        which is given from its start. Each block is a buffer of exactly ``block_bytes(group)``
        bytes, or a function that fills a uint8 array of that size.

        The result tells for each block what became of it. Stored blocks are seen by the whole
        tenant at once; they survive a crash after :meth:`Client.flush`, or at once if
        ``durable``. An error before anything was stored is raised; while the daemon is busy the
        put waits up to ``busy_wait_s`` first.
        """
        new = writing.new_token_blocks(self.state, tokens, len(blocks), first_block, group, extras)
        options = PutOptions(durable, ttl_ms, pinned)
        return self._client._run(
            lambda s: writing.put(s, new, blocks, options, busy_wait_s), timeout_s
        )

    def reserve(self, blocks: int, *, group: int = 0, timeout_s: float | None = None) -> Staging:
        """Memory for ``blocks`` new blocks, to be filled and committed within 30 s. Busy if the
        daemon has too much to write already."""
        staged = self._client._run(
            lambda s: writing.stage_or_none(s, self.state, group, blocks), timeout_s
        )
        return Staging(self._client, self.state, blocks, group, staged)

    def put_value(
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
        """Stores one value under a key of your own (1..256 bytes)."""
        return self.put_values(
            [key],
            [value],
            durable=durable,
            ttl_ms=ttl_ms,
            pinned=pinned,
            busy_wait_s=busy_wait_s,
            timeout_s=timeout_s,
        )

    def put_values(
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
        """Stores values under keys of your own; result and errors as for :meth:`put`."""
        sizes = [memoryview(value).nbytes for value in values]
        new = writing.new_values(self.state, keys, sizes)
        options = PutOptions(durable, ttl_ms, pinned)
        return self._client._run(
            lambda s: writing.put(s, new, values, options, busy_wait_s), timeout_s
        )

    def get_value(self, key: bytes, *, timeout_s: float | None = None) -> bytes | None:
        """A copy of the value under a key of your own; None if there is none."""
        with self.get(keys=[key], timeout_s=timeout_s) as blocks:
            if isinstance(blocks[0].error, NotFound):
                return None
            return blocks[0].copy().tobytes()

    # ---- looking after what is stored

    def pin(
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
        """Keeps blocks from being evicted, over restarts too; ``pinned=False`` ends that."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return self._client._run(
            lambda s: admin.pin(s, self.state, selection, group, pinned), timeout_s
        )

    def set_ttl(
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
        """Blocks end ``ttl_ms`` from now; 0: never."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return self._client._run(
            lambda s: admin.set_ttl(s, self.state, selection, group, ttl_ms), timeout_s
        )

    def delete(
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
        """Removes the named blocks and, with ``descendants``, all that continue them."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return self._client._run(
            lambda s: admin.delete(s, self.state, selection, group, descendants), timeout_s
        )

    def clear(
        self,
        prefix: TokenIds | None = None,
        *,
        tier: TierChoice = "all",
        pinned: bool = False,
        group: int = 0,
        timeout_s: float | None = None,
    ) -> Removal:
        """Removes everything in the namespace or, given ``prefix``, its last full block and all
        that continues it."""
        selection = None if prefix is None else self.state.select(prefix, None)
        scope: admin.Scope = "namespace" if prefix is None else "prefix"
        return self._client._run(
            lambda s: admin.clear(s, scope, tier, pinned, "", self.state, selection, group),
            timeout_s,
        )

    def explain(
        self,
        tokens: TokenIds | None = None,
        *,
        hashes: Sequence[bytes] | None = None,
        keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
        group: int = 0,
        timeout_s: float | None = None,
    ) -> Explanation:
        """Why a look-up finds no more than it does."""
        selection = self.state.select(tokens, hashes, keys, extras)
        return self._client._run(
            lambda s: admin.explain(s, self.state, selection, group), timeout_s
        )

    def list_blocks(
        self, *, after: bytes | None = None, limit: int = 1000, timeout_s: float | None = None
    ) -> Page:
        """Stored blocks, a page at a time; pass the page's ``next`` as ``after``."""
        return self._client._run(
            lambda s: admin.list_blocks(s, self.state, after, limit), timeout_s
        )

    def inspect(
        self, block_hash: bytes, *, group: int = 0, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """All that is known of one block. NotFound if it is not stored."""
        selection = self.state.select(None, [block_hash])
        return self._client._run(
            lambda s: admin.inspect(s, self.state, selection, group), timeout_s
        )

    def verify(
        self, *, after: bytes | None = None, limit: int = 1000, timeout_s: float | None = None
    ) -> Verified:
        """Reads stored blocks back and checks them, a page at a time."""
        return self._client._run(lambda s: admin.verify(s, self.state, after, limit), timeout_s)


class Staging:
    """Memory to write new blocks into, in place: ``arrays[i]`` is writable, uint8 [block_bytes].
    A context manager that gives back what was not committed::

        with namespace.reserve(2) as staging:
            for array in staging.arrays: ...
            staging.commit(tokens)
    """

    def __init__(
        self, client: Client, state: NamespaceState, blocks: int, group: int, staged: Staged | None
    ) -> None:
        self._client = client
        self._state = state
        self._group = group
        self._staged = staged
        self.arrays = writing.staging_arrays(staged, blocks, state.block_bytes(group))

    def commit(
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
        """Stores the arrays as blocks ``first_block``, ``first_block + 1``, ... of the sequence
        ``tokens``; they may not be written afterwards. Result as for Namespace.put. Unavailable
        if the memory went with its connection."""
        arrays, self.arrays = self.arrays, []
        new = writing.new_token_blocks(
            self._state, tokens, len(arrays), first_block, self._group, extras
        )
        options = PutOptions(durable, ttl_ms, pinned)
        return self._client._run(
            lambda s: writing.commit_staged(s, self._staged, arrays, new, options),
            timeout_s,
            repeatable=False,
        )

    def abort(self) -> None:
        """Gives the memory back. Nothing happens if it was committed."""
        self.arrays = []
        if self._staged is not None:
            self._staged.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()
