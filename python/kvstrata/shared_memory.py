"""Shared memory: the chunks a daemon passes to local clients (doc/shared-memory.md).

A Chunk is one mapped memfd; a ChunkTable holds those of one connection. Read chunks are mapped
read-only: writing to an array over them is refused by numpy, and by the kernel where numpy is
bypassed. When the connection ends the table is closed, and nothing of it counts as valid any more.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Sequence

import numpy as np

from kvstrata.errors import LeaseExpired, ProtocolError, Unsupported
from kvstrata.protocol import Bytes

CHUNK_MAGIC = b"KVSCHUNK"
CHUNK_VERSION = 1
CHUNK_HEADER = struct.Struct("<8sIIQQIIQ16x")
READ, STAGING = 1, 2
_SEALS_NEEDED = fcntl.F_SEAL_SHRINK  # else a read could end in SIGBUS


class Chunk:
    """One mapped chunk. It lives as long as its table or an array over it does."""

    def __init__(self, chunk_id: int, kind: int, file_bytes: int, descriptor: int) -> None:
        """Maps ``descriptor`` (which stays the caller's). Unsupported if the file is not what the
        format page says, OSError if it can't be mapped."""
        self.id = chunk_id
        self.alive = True
        if os.fstat(descriptor).st_size != file_bytes:
            raise Unsupported(f"chunk {chunk_id}: the file has another size than announced")
        if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS_NEEDED != _SEALS_NEEDED:
            raise Unsupported(f"chunk {chunk_id}: the file is not sealed against shrinking")
        access = mmap.ACCESS_WRITE if kind == STAGING else mmap.ACCESS_READ
        self._map = mmap.mmap(descriptor, file_bytes, access=access)
        magic, version, _, own_id, slot_bytes, slots, _, data_offset = CHUNK_HEADER.unpack_from(
            self._map
        )
        if magic != CHUNK_MAGIC or version != CHUNK_VERSION or own_id != chunk_id:
            raise Unsupported(f"chunk {chunk_id}: not a chunk of version {CHUNK_VERSION}")
        if (
            slots == 0
            or data_offset < CHUNK_HEADER.size + 8 * slots
            or data_offset + slots * slot_bytes != file_bytes
        ):
            raise Unsupported(f"chunk {chunk_id}: the header contradicts the file's size")
        self.slot_bytes: int = slot_bytes
        self.slots: int = slots
        self.data_offset: int = data_offset
        self._generations = memoryview(self._map)[CHUNK_HEADER.size :][: 8 * slots].cast("Q")

    def generation(self, slot: int) -> int:
        """The slot's generation word now. One aligned 8-byte load; the work the interpreter does
        around it keeps it in order with the copies before and after on every CPU it runs on."""
        try:
            return self._generations[slot] if self.alive else 0
        except ValueError:  # unmapped by the connection's reader just now
            return 0

    def slot_of(self, offset: int, size: int) -> int:
        """The index of the slot at this offset of the file; ProtocolError if ``size`` bytes from
        there are not inside one slot."""
        slot, inside = divmod(offset - self.data_offset, self.slot_bytes)
        if not 0 <= slot < self.slots or inside or size > self.slot_bytes:
            raise ProtocolError(f"chunk {self.id}: no slot of {size} bytes at offset {offset}")
        return slot

    def array(self, offset: int, size: int) -> Bytes:
        """The bytes at ``offset``; writable for staging chunks only. Shape [size]."""
        return np.frombuffer(self._map, dtype=np.uint8, count=size, offset=offset)

    def try_unmap(self) -> bool:
        """Ends the chunk's life; False if arrays over it still keep it mapped."""
        self.alive = False
        self._generations.release()
        try:
            self._map.close()
        except BufferError:
            return False
        return True


class SlotGuard:
    """Watches one published slot: whether it still holds the content a lease told of."""

    __slots__ = ("_chunk", "_generation", "_slot")

    def __init__(self, chunk: Chunk, slot: int, generation: int) -> None:
        self._chunk = chunk
        self._slot = slot
        self._generation = generation

    def check(self) -> None:
        """LeaseExpired unless the slot still holds the same content."""
        if not self._chunk.alive:
            raise LeaseExpired("the connection or the chunk that held this block is gone")
        if self._chunk.generation(self._slot) != self._generation:
            raise LeaseExpired("the block's slot was given to other content after the lease ended")


class ChunkTable:
    """The chunks of one connection, by id. Used by the connection's reader only, except for
    :meth:`find`, which any thread may call."""

    def __init__(self) -> None:
        self._chunks: dict[int, Chunk] = {}
        self._unmapping: list[Chunk] = []
        self._never_mapped: list[int] = []  # retired ids that were not or could not be mapped
        self.failure = ""  #: why shared memory can't be used here; empty: it can

    def announce(self, chunks: object, descriptors: Sequence[int]) -> None:
        """Maps the chunks a message announced (``[[id, kind, file_bytes], ...]``), one descriptor
        each, and closes the descriptors. What can't be mapped ends up in :attr:`failure`."""
        try:
            if not isinstance(chunks, list) or len(chunks) != len(descriptors):
                raise ProtocolError(
                    f"{len(descriptors)} file descriptors came with chunks {chunks!r}"
                )
            for entry, descriptor in zip(chunks, descriptors, strict=True):
                match entry:
                    case [int(chunk_id), int(kind), int(file_bytes)]:
                        self._map(chunk_id, kind, file_bytes, descriptor)
                    case _:
                        raise ProtocolError("'chunks' holds something else than [id, kind, bytes]")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _map(self, chunk_id: int, kind: int, file_bytes: int, descriptor: int) -> None:
        try:
            self._chunks[chunk_id] = Chunk(chunk_id, kind, file_bytes, descriptor)
        except (Unsupported, OSError, ValueError) as error:
            self.failure = f"a chunk can't be mapped: {error}"

    def find(self, chunk_id: int) -> Chunk:
        """ProtocolError if no such chunk was announced."""
        chunk = self._chunks.get(chunk_id)
        if chunk is None:
            raise ProtocolError(f"the daemon refers to chunk {chunk_id}, which it never passed")
        return chunk

    def retire(self, chunk_ids: Sequence[int]) -> None:
        """The daemon wants these unmapped; blocks in them are not valid from now on."""
        for chunk_id in chunk_ids:
            if chunk := self._chunks.pop(chunk_id, None):
                chunk.alive = False
                self._unmapping.append(chunk)
            else:
                self._never_mapped.append(chunk_id)

    @property
    def is_unmapping(self) -> bool:
        """True while arrays keep a retired chunk mapped."""
        return bool(self._unmapping)

    def unmapped(self) -> list[int]:
        """Unmaps what it can of the retired chunks; the ids of those that are gone now."""
        gone = [chunk for chunk in self._unmapping if chunk.try_unmap()]
        self._unmapping = [chunk for chunk in self._unmapping if chunk not in gone]
        ids = [chunk.id for chunk in gone] + self._never_mapped
        self._never_mapped = []
        return ids

    def close(self) -> None:
        """Ends all chunks; memory that arrays still show goes when they go."""
        for chunk in [*self._chunks.values(), *self._unmapping]:
            chunk.try_unmap()
        self._chunks.clear()
        self._unmapping.clear()
