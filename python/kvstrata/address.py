"""Addresses: where a client finds its daemon."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Mapping

from kvstrata.errors import InvalidArgument, Unavailable

SOCKET_VARIABLE = "KVSTRATA_SOCKET"
TOKEN_VARIABLE = "KVSTRATA_TOKEN"


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """A Unix socket's path, or a TCP host and port."""

    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def is_unix(self) -> bool:
        """True if file descriptors, and so shared memory, can be passed."""
        return bool(self.path)

    @property
    def family(self) -> socket.AddressFamily:
        """AF_UNIX, AF_INET or AF_INET6."""
        if self.is_unix:
            return socket.AF_UNIX
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    @property
    def target(self) -> str | tuple[str, int]:
        """What socket.connect() takes."""
        return self.path if self.is_unix else (self.host, self.port)

    def __str__(self) -> str:
        if self.is_unix:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp:{host}:{self.port}"


def parse_address(text: str) -> Address:
    """``unix:PATH``, ``tcp:HOST:PORT`` (``tcp:[::1]:7070``), or a plain path that starts with
    ``/`` or ``.``; InvalidArgument for anything else."""
    scheme, _, rest = text.partition(":")
    if scheme == "unix" and rest:
        return Address(path=rest)
    if text.startswith(("/", ".")):
        return Address(path=text)
    if scheme == "tcp":
        host, _, port = rest.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
            return Address(host=host, port=int(port))
    raise InvalidArgument(f"address '{text}' is neither unix:PATH nor tcp:HOST:PORT")


def default_paths(environment: Mapping[str, str], user_id: int) -> list[str]:
    """The daemon's default socket paths, the likeliest first."""
    paths = []
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        paths.append(os.path.join(runtime, "kvstrata.sock"))
    if user_id == 0:
        data = "/var/lib/kvstrata"
    else:
        data = os.path.join(environment.get("HOME", "/"), ".local/share/kvstrata")
    paths.append(os.path.join(data, "kvstrata.sock"))
    return paths


def resolve_address(text: str | None) -> Address:
    """``text``; else the variable KVSTRATA_SOCKET; else the first default path that exists.
    Unavailable if none does. It is looked up anew at every connect, so a daemon may move."""
    text = text or os.environ.get(SOCKET_VARIABLE)
    if text:
        return parse_address(text)
    paths = default_paths(os.environ, os.getuid())
    for path in paths:
        if os.path.exists(path):
            return Address(path=path)
    raise Unavailable(
        f"no daemon found: {SOCKET_VARIABLE} is not set and there is no {' or '.join(paths)}"
    )
