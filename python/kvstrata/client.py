"""The blocking client. Any number of threads may share one Client."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from kvstrata import admin, reading
from kvstrata.address import resolve_address
from kvstrata.admin import Scope, TierChoice
from kvstrata.connection import Connection
from kvstrata.errors import ConnectionLost, DeadlineExceeded, Unavailable
from kvstrata.keys import TokenIds
from kvstrata.lease import Lease
from kvstrata.model import ModelDescriptor, NamespaceSpec
from kvstrata.namespace import Namespace
from kvstrata.namespaces import NamespaceState
from kvstrata.options import CLIENT_NAME, BackOff, Options
from kvstrata.results import Event, Removal, ServerInfo
from kvstrata.session import Flow, Session, hello
from kvstrata.views import LeaseHandle
from kvstrata.writing import flush

T = TypeVar("T")


def connect(
    address: str | None = None,
    *,
    token: str | None = None,
    timeout_s: float = 30.0,
    connect_timeout_s: float = 2.0,
    shared_memory: bool = True,
) -> Client:
    """A Client that is connected. Unavailable if there is no daemon; make a :class:`Client` to
    connect with the first request instead. Arguments: see :class:`kvstrata.options.Options`."""
    client = Client(
        address,
        token=token,
        timeout_s=timeout_s,
        connect_timeout_s=connect_timeout_s,
        shared_memory=shared_memory,
    )
    client.server_info()
    return client


class Client:
    """A client of one daemon. It connects when it must, also again after a daemon restarted:
    namespaces are registered anew, leases of the old daemon are expired. While the daemon is away
    every request raises Unavailable within ``connect_timeout_s``.

    A request is repeated once, on a new connection, if its connection broke and repeating it is
    harmless. Every method takes ``timeout_s``: DeadlineExceeded after that long (and one second's
    grace, if the daemon hangs).
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        connect_timeout_s: float = 2.0,
        shared_memory: bool = True,
    ) -> None:
        self.options = Options(address, token, timeout_s, connect_timeout_s, shared_memory)
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._back_off = BackOff()
        self._watcher: Callable[[Event], None] | None = None
        self._is_closed = False
        self._finalizer: weakref.finalize[..., Client] | None = None

    # ---- connecting

    def close(self) -> None:
        """Ends the connection, and with it all leases. The client can't be used afterwards."""
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_connected(self) -> bool:
        """True if the last word is that the daemon is there; nothing is sent to find out."""
        return self._connection is not None and self._connection.session.is_open

    def server_info(self) -> ServerInfo:
        """What the daemon said of itself when this client connected; connects if need be."""
        info = self._connected().session.info
        assert info is not None
        return info

    def _connected(self) -> Connection:
        connection = self._connection
        if connection is not None and connection.session.is_open:
            return connection
        if self._pid != os.getpid():  # forked: the parent's connection is not ours
            self._pid = os.getpid()
            self._lock = threading.Lock()
            if connection is not None:
                connection.forget()
        with self._lock:
            if self._connection is None or not self._connection.session.is_open:
                self._connection = self._open()
            return self._connection

    def _open(self) -> Connection:
        if self._is_closed:
            raise Unavailable("this client was closed")
        self._back_off.check()
        began = time.monotonic()
        try:
            address = resolve_address(self.options.address)
            session = Session(shared_memory=address.is_unix and self.options.shared_memory)
            session.on_event = self._watcher
            connection = Connection.open(address, session, self.options.connect_timeout_s)
            self._greet(connection, began + self.options.connect_timeout_s)
        except Unavailable as error:
            self._back_off.failed(error, began)
            raise
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, connection.close)
        return connection

    def _greet(self, connection: Connection, deadline: float) -> None:
        try:
            flow = hello(CLIENT_NAME, self.options.effective_token())
            connection.session.info = connection.drive(flow, deadline, grace_s=0.0)
            if self._watcher is not None:
                connection.drive(admin.watch(connection.session), deadline, grace_s=0.0)
        except DeadlineExceeded as error:
            connection.close()
            raise Unavailable("a daemon accepts connections but says no hello") from error
        except BaseException:
            connection.close()
            raise

    def _run(
        self,
        start: Callable[[Session], Flow[T]],
        timeout_s: float | None,
        repeatable: bool = True,
    ) -> T:
        """Drives a flow; once more from its start if the connection broke under it."""
        deadline = self.options.deadline(timeout_s)
        connection = self._connected()
        try:
            return connection.drive(start(connection.session), deadline)
        except ConnectionLost:
            if not repeatable:
                raise
        connection = self._connected()
        return connection.drive(start(connection.session), deadline)

    # ---- what a client is for

    def register(
        self, spec: NamespaceSpec | ModelDescriptor, *, timeout_s: float | None = None
    ) -> Namespace:
        """The namespace of a spec. InvalidArgument names a field that is out of range."""
        if isinstance(spec, ModelDescriptor):
            spec = NamespaceSpec(spec)
        state = NamespaceState(spec)
        self._run(state.ensure, timeout_s)
        return Namespace(self, state)

    def attach(self, handle: LeaseHandle, *, timeout_s: float | None = None) -> Lease:
        """Shares a lease that another process of this tenant got; it lives until both let go.
        NotFound if it ended or the secret is wrong."""
        return Lease(self, self._run(lambda s: reading.attach(s, handle), timeout_s))

    def group_lookup(
        self,
        parts: Sequence[tuple[Namespace, TokenIds]],
        *,
        group: int = 0,
        lease_ms: int | None = None,
        timeout_s: float | None = None,
    ) -> list[Lease]:
        """Looks one sequence up in the namespaces of several shards at once: all leases have the
        same length, up to which every shard has its blocks."""
        named = [(ns.state, ns.state.select(tokens, None), group) for ns, tokens in parts]
        states = self._run(lambda s: reading.group_lookup(s, named, lease_ms), timeout_s)
        return [Lease(self, state) for state in states]

    def flush(self, sequence: int | None = None, *, timeout_s: float | None = None) -> int:
        """Returns when everything stored up to ``sequence`` (None: everything so far) is on disk
        and survives a crash; the sequence that is durable. A daemon that restarted since the put
        has lost what was not flushed, and a sequence of it means nothing to the new one."""
        return self._run(lambda s: flush(s, sequence), timeout_s, repeatable=False)

    def stats(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Counters and gauges, nested (doc/metrics.md)."""
        return self._run(admin.stats, timeout_s)

    def list_namespaces(self, *, timeout_s: float | None = None) -> list[dict[str, Any]]:
        """All namespaces of this tenant."""
        return self._run(admin.list_namespaces, timeout_s)

    def bump_weight_epoch(self, fingerprint: str, *, timeout_s: float | None = None) -> int:
        """Tells that the weights of this fingerprint changed: all its blocks are misses from now
        on, and every client must refresh its namespaces. The new epoch."""
        return self._run(
            lambda s: admin.bump_weight_epoch(s, fingerprint), timeout_s, repeatable=False
        )

    def clear(
        self,
        scope: Scope = "tenant",
        *,
        fingerprint: str = "",
        tier: TierChoice = "all",
        pinned: bool = False,
        timeout_s: float | None = None,
    ) -> Removal:
        """Removes everything of the tenant, or of one model (scope "model"). ``pinned``: also
        pinned blocks. For a namespace or a prefix see :meth:`Namespace.clear`."""
        return self._run(lambda s: admin.clear(s, scope, tier, pinned, fingerprint), timeout_s)

    def evict(
        self,
        *,
        bytes: int | None = None,
        blocks: int | None = None,
        timeout_s: float | None = None,
    ) -> Removal:
        """Frees so much of the tenant's host memory; blocks on disk stay on disk."""
        return self._run(lambda s: admin.evict(s, bytes, blocks), timeout_s, repeatable=False)

    def watch(self, callback: Callable[[Event], None]) -> None:
        """Calls ``callback`` for each event from now on, on the connection's thread: it must be
        quick and must not call the client. Watching goes on after a reconnect; what happened
        between is not told."""
        self._watcher = callback
        connection = self._connected()
        connection.session.on_event = callback
        self._run(admin.watch, None)
