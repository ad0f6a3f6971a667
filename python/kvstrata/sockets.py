"""What both transports do with a socket: receive with file descriptors, send without copies."""

from __future__ import annotations

import array
import socket

from kvstrata.errors import ProtocolError
from kvstrata.protocol import DESCRIPTORS_PER_MESSAGE_MAX

_DESCRIPTOR = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(DESCRIPTORS_PER_MESSAGE_MAX * _DESCRIPTOR)
_PARTS_PER_SEND = 64


def receive(sock: socket.socket, buffer: memoryview) -> tuple[int, list[int]]:
    """Receives into ``buffer``: the number of bytes (0: the peer closed) and the file descriptors
    that came with them, close-on-exec."""
    if sock.family != socket.AF_UNIX:
        return sock.recv_into(buffer), []
    count, ancillary, flags, _ = sock.recvmsg_into(
        [buffer], _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % _DESCRIPTOR])
    if flags & socket.MSG_CTRUNC:
        raise ProtocolError(
            "file descriptors were lost on their way: this process has too many open files"
        )
    return count, list(descriptors)


def send_some(sock: socket.socket, parts: list[memoryview]) -> list[memoryview]:
    """Sends what the socket takes now and returns the rest. BlockingIOError if it takes nothing."""
    sent = sock.sendmsg(parts[:_PARTS_PER_SEND], [], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    for index, part in enumerate(parts):
        if sent < len(part):
            return [part[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []


def tune(sock: socket.socket) -> None:
    """Small messages leave at once."""
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
