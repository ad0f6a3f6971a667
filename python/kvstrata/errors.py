"""Errors: one exception class per error kind of wire protocol 1.

Catch :class:`Error` for everything this package raises on purpose, or a subclass to decide. Where
Python has a class for the same thing, the subclass is one of those too: ``Unavailable`` is a
``ConnectionError``, ``DeadlineExceeded`` a ``TimeoutError``, ``InvalidArgument`` a ``ValueError``.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class ErrorKind(enum.IntEnum):
    """What went wrong; the numbers are part of wire protocol 1 (doc/wire-protocol.md)."""

    INVALID_ARGUMENT = 1
    NOT_FOUND = 2
    EXISTS = 3
    CONFLICT = 4
    BUSY = 5
    TOO_LARGE = 6
    OUT_OF_MEMORY = 7
    OUT_OF_SPACE = 8
    IO = 9
    CORRUPT = 10
    UNSUPPORTED = 11
    PERMISSION_DENIED = 12
    UNAUTHENTICATED = 13
    LEASE_EXPIRED = 14
    EPOCH_CHANGED = 15
    DEADLINE_EXCEEDED = 16
    CANCELLED = 17
    PROTOCOL = 18
    UNAVAILABLE = 19
    LOCKED = 20
    INTERNAL = 21


class Error(Exception):
    """Base of all errors of this package. ``kind`` is the error kind, ``str(error)`` a sentence."""

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL


class InvalidArgument(Error, ValueError):
    """The request contradicts itself or the registered model."""

    kind = ErrorKind.INVALID_ARGUMENT


class NotFound(Error, LookupError):
    """No such key, lease, slot or namespace for this tenant."""

    kind = ErrorKind.NOT_FOUND


class Exists(Error):
    """The same bytes are stored already."""

    kind = ErrorKind.EXISTS


class Conflict(Error):
    """Other bytes are stored under this key; the first stay."""

    kind = ErrorKind.CONFLICT


class Busy(Error):
    """A bounded queue is full; try again later."""

    kind = ErrorKind.BUSY


class TooLarge(Error):
    """A length exceeds its stated limit."""

    kind = ErrorKind.TOO_LARGE


class OutOfMemory(Error):
    """The host tier's budget has no room that can be freed."""

    kind = ErrorKind.OUT_OF_MEMORY


class OutOfSpace(Error):
    """The disk budget or file system has no room."""

    kind = ErrorKind.OUT_OF_SPACE


class IoError(Error):
    """A device of the daemon failed."""

    kind = ErrorKind.IO


class Corrupt(Error):
    """Bytes fail their checksum or grammar; nothing of them was handed out."""

    kind = ErrorKind.CORRUPT


class Unsupported(Error):
    """Known, but not offered by this build or version."""

    kind = ErrorKind.UNSUPPORTED


class PermissionDenied(Error, PermissionError):
    """The operating system or the tenant's rights refuse."""

    kind = ErrorKind.PERMISSION_DENIED


class Unauthenticated(Error):
    """No or a wrong token."""

    kind = ErrorKind.UNAUTHENTICATED


class LeaseExpired(Error):
    """The lease ended; nothing read under it since its last check is valid."""

    kind = ErrorKind.LEASE_EXPIRED


class EpochChanged(Error):
    """The model's weights changed since registration; see :meth:`Namespace.refresh`."""

    kind = ErrorKind.EPOCH_CHANGED


class DeadlineExceeded(Error, TimeoutError):
    """The request's own deadline passed."""

    kind = ErrorKind.DEADLINE_EXCEEDED


class Cancelled(Error):
    """The request was cancelled by this client."""

    kind = ErrorKind.CANCELLED


class ProtocolError(Error):
    """Bytes that are not protocol 1; the connection is closed."""

    kind = ErrorKind.PROTOCOL


class Unavailable(Error, ConnectionError):
    """The daemon is draining, gone or not yet ready."""

    kind = ErrorKind.UNAVAILABLE


class ConnectionLost(Unavailable):
    """The connection ended while a request was under way; its outcome is unknown."""


class Locked(Error):
    """Another process owns the store."""

    kind = ErrorKind.LOCKED


class Internal(Error):
    """A bug of the daemon; the message names the place."""

    kind = ErrorKind.INTERNAL


_CLASSES: dict[int, type[Error]] = {
    cls.kind: cls
    for cls in (
        InvalidArgument, NotFound, Exists, Conflict, Busy, TooLarge, OutOfMemory, OutOfSpace,
        IoError, Corrupt, Unsupported, PermissionDenied, Unauthenticated, LeaseExpired,
        EpochChanged, DeadlineExceeded, Cancelled, ProtocolError, Unavailable, Locked, Internal,
    )
}  # fmt: skip


def error_of(kind: int, message: str) -> Error:
    """The exception for an error kind as it stands on the wire; a number of a newer daemon that
    this version does not know becomes a plain :class:`Error` that names it."""
    cls = _CLASSES.get(kind)
    return cls(message) if cls else Error(f"{message} (error kind {kind})")
