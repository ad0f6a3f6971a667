"""What the daemon answers, as plain data."""

from __future__ import annotations

import dataclasses
from typing import Any

from kvstrata.errors import Error, ErrorKind, ProtocolError, error_of
from kvstrata.protocol import Body

TIER_NAMES = {0: "none", 1: "host", 2: "disk"}


@dataclasses.dataclass(frozen=True, slots=True)
class ServerInfo:
    """What HELLO told: the daemon, the tenant this client is, and limits."""

    server: str
    tenant: str
    is_admin: bool
    store: str  #: id of the store on disk, hex; stays over restarts
    boot: bytes  #: differs each time the daemon starts, 16 bytes
    lease_ms: int  #: life of a lease if none is asked for
    limits: dict[str, int]

    @classmethod
    def of(cls, body: Body) -> ServerInfo:
        """Unpacks HELLO's reply."""
        limits = body.map.get("limits") or {}
        return cls(
            server=body.text("server"),
            tenant=body.text("tenant"),
            is_admin=body.flag("admin", False),
            store=body.text("store", ""),
            boot=body.binary("boot"),
            lease_ms=body.number("lease_ms", 10_000),
            limits={str(name): value for name, value in limits.items() if isinstance(value, int)},
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PutResult:
    """What became of blocks that were put, in order. It tells the truth for each block: what is
    neither stored nor there already is not in the cache."""

    statuses: tuple[ErrorKind | None, ...]  #: None: stored; EXISTS: there already; else why not
    hashes: tuple[bytes, ...]  #: names of the blocks; empty bytes where the daemon gave none
    sequence: int  #: for flush(): of the last block that became visible; 0: none did
    bytes_sent: int  #: of payload that was handed to the daemon
    error: Error | None = None  #: what ended the put before its last block, if anything did

    @property
    def stored(self) -> int:
        """Blocks that are new in the cache."""
        return sum(status is None for status in self.statuses)

    @property
    def already(self) -> int:
        """Blocks that the cache had, byte for byte."""
        return sum(status == ErrorKind.EXISTS for status in self.statuses)

    @property
    def ok(self) -> bool:
        """True if every block is in the cache now."""
        return self.error is None and self.stored + self.already == len(self.statuses)

    def raise_for_status(self) -> None:
        """Raises the first block's error, if a block is not in the cache now."""
        if self.error is not None:
            raise self.error
        for index, status in enumerate(self.statuses):
            if status not in (None, ErrorKind.EXISTS):
                raise error_of(int(status or 0), f"block {index} was not stored")


@dataclasses.dataclass(frozen=True, slots=True)
class Present:
    """EXISTS: ``blocks`` consecutive ones from the start, and each for itself."""

    blocks: int
    each: tuple[bool, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """PIN, TTL: how many blocks were changed and how many are not stored."""

    changed: int
    missing: int

    @classmethod
    def of(cls, body: Body) -> Changed:
        """Unpacks the reply."""
        return cls(body.number("changed"), body.number("missing"))


@dataclasses.dataclass(frozen=True, slots=True)
class Removal:
    """DELETE, CLEAR, EVICT: what went and what stayed. Leased blocks go when their leases end."""

    removed_blocks: int
    removed_bytes: int
    kept_pinned: int
    kept_leased: int

    @classmethod
    def of(cls, body: Body) -> Removal:
        """Unpacks the reply."""
        return cls(*(body.number(field.name) for field in dataclasses.fields(cls)))


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """EXPLAIN: why a look-up finds no more. ``field`` is the first field of the namespace that
    differs from one that has the block, if there is such a one."""

    blocks: int
    wanted: int
    reason: str
    field: str = ""
    detail: str = ""

    @classmethod
    def of(cls, body: Body) -> Explanation:
        """Unpacks the reply."""
        return cls(
            body.number("blocks"), body.number("wanted"), body.text("reason"),
            body.text("field", ""), body.text("detail", ""),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """LIST: some entries, and where the next page begins (None: this was the last)."""

    entries: list[dict[str, Any]]
    next: bytes | None


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """VERIFY: blocks read back and checked. ``bad_keys`` are gone from the cache now."""

    checked: int
    bad: int
    bytes_read: int  #: decoded
    bad_keys: list[str]
    next: bytes | None

    @classmethod
    def of(cls, body: Body) -> Verified:
        """Unpacks the reply."""
        return cls(
            body.number("checked"), body.number("bad"), body.number("bytes", 0),
            [str(key) for key in body.array("bad_keys", [])], body.binary("next", b"") or None,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """What a watcher is told. ``name``: stored, removed, epoch_changed or draining."""

    name: str
    namespace_id: int
    group: int
    tier: str
    hashes: tuple[bytes, ...]
    fingerprint: str
    epoch: int


def statuses_of(body: Body, count: int) -> tuple[ErrorKind | None, ...]:
    """The per-block ``status`` of a reply about ``count`` blocks."""
    raw = body.binary("status")
    if len(raw) != count:
        raise ProtocolError(f"{body.what}: {len(raw)} statuses for {count} blocks")
    try:
        return tuple(ErrorKind(status) if status else None for status in raw)
    except ValueError as error:
        raise ProtocolError(f"{body.what}: {error}") from error


def hashes_of(raw: bytes) -> tuple[bytes, ...]:
    """Cuts concatenated 32-byte hashes."""
    return tuple(raw[at : at + 32] for at in range(0, len(raw), 32))
