"""The asyncio client. One AsyncClient belongs to one event loop; any number of its tasks may share
it, and their requests are under way side by side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from kvstrata import admin, reading
from kvstrata.address import resolve_address
from kvstrata.admin import Scope, TierChoice
from kvstrata.aio_connection import AsyncConnection
from kvstrata.aio_namespace import AsyncLease, AsyncNamespace
from kvstrata.errors import ConnectionLost, DeadlineExceeded, Unavailable
from kvstrata.keys import TokenIds
from kvstrata.model import ModelDescriptor, NamespaceSpec
from kvstrata.namespaces import NamespaceState
from kvstrata.options import CLIENT_NAME, BackOff, Options
from kvstrata.results import Event, Removal, ServerInfo
from kvstrata.session import Flow, Session, hello
from kvstrata.views import LeaseHandle
from kvstrata.writing import flush

T = TypeVar("T")


class AsyncClient:
    """As :class:`kvstrata.Client`, for asyncio::

        async with AsyncClient() as client:
            namespace = await client.register(descriptor)

    Cancelling a task that awaits a request cancels the request in the daemon too, and gives back
    what its late answer grants.
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
        self._connection: AsyncConnection | None = None
        self._lock = asyncio.Lock()
        self._back_off = BackOff()
        self._watcher: Callable[[Event], None] | None = None
        self._is_closed = False

    # ---- connecting

    def close(self) -> None:
        """Ends the connection, and with it all leases. The client can't be used afterwards."""
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
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

    async def server_info(self) -> ServerInfo:
        """What the daemon said of itself when this client connected; connects if need be."""
        info = (await self._connected()).session.info
        assert info is not None
        return info

    async def _connected(self) -> AsyncConnection:
        if self._connection is not None and self._connection.session.is_open:
            return self._connection
        async with self._lock:
            if self._connection is None or not self._connection.session.is_open:
                self._connection = await self._open()
            return self._connection

    async def _open(self) -> AsyncConnection:
        if self._is_closed:
            raise Unavailable("this client was closed")
        self._back_off.check()
        began = time.monotonic()
        try:
            address = resolve_address(self.options.address)
            session = Session(shared_memory=address.is_unix and self.options.shared_memory)
            session.on_event = self._watcher
            timeout_s = self.options.connect_timeout_s
            connection = await AsyncConnection.open(address, session, timeout_s)
            await self._greet(connection, began + timeout_s)
        except Unavailable as error:
            self._back_off.failed(error, began)
            raise
        return connection

    async def _greet(self, connection: AsyncConnection, deadline: float) -> None:
        try:
            flow = hello(CLIENT_NAME, self.options.effective_token())
            connection.session.info = await connection.drive(flow, deadline, grace_s=0.0)
            if self._watcher is not None:
                flow_of_watch = admin.watch(connection.session)
                await connection.drive(flow_of_watch, deadline, grace_s=0.0)
        except DeadlineExceeded as error:
            connection.close()
            raise Unavailable("a daemon accepts connections but says no hello") from error
        except BaseException:
            connection.close()
            raise

    async def _run(
        self,
        start: Callable[[Session], Flow[T]],
        timeout_s: float | None,
        repeatable: bool = True,
    ) -> T:
        """Drives a flow; once more from its start if the connection broke under it."""
        deadline = self.options.deadline(timeout_s)
        connection = await self._connected()
        try:
            return await connection.drive(start(connection.session), deadline)
        except ConnectionLost:
            if not repeatable:
                raise
        connection = await self._connected()
        return await connection.drive(start(connection.session), deadline)

    # ---- what a client is for

    async def register(
        self, spec: NamespaceSpec | ModelDescriptor, *, timeout_s: float | None = None
    ) -> AsyncNamespace:
        """As :meth:`Client.register`."""
        if isinstance(spec, ModelDescriptor):
            spec = NamespaceSpec(spec)
        state = NamespaceState(spec)
        await self._run(state.ensure, timeout_s)
        return AsyncNamespace(self, state)

    async def attach(self, handle: LeaseHandle, *, timeout_s: float | None = None) -> AsyncLease:
        """As :meth:`Client.attach`."""
        return AsyncLease(self, await self._run(lambda s: reading.attach(s, handle), timeout_s))

    async def group_lookup(
        self,
        parts: Sequence[tuple[AsyncNamespace, TokenIds]],
        *,
        group: int = 0,
        lease_ms: int | None = None,
        timeout_s: float | None = None,
    ) -> list[AsyncLease]:
        """As :meth:`Client.group_lookup`."""
        named = [(ns.state, ns.state.select(tokens, None), group) for ns, tokens in parts]
        states = await self._run(lambda s: reading.group_lookup(s, named, lease_ms), timeout_s)
        return [AsyncLease(self, state) for state in states]

    async def flush(self, sequence: int | None = None, *, timeout_s: float | None = None) -> int:
        """As :meth:`Client.flush`."""
        return await self._run(lambda s: flush(s, sequence), timeout_s, repeatable=False)

    async def stats(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """As :meth:`Client.stats`."""
        return await self._run(admin.stats, timeout_s)

    async def list_namespaces(self, *, timeout_s: float | None = None) -> list[dict[str, Any]]:
        """As :meth:`Client.list_namespaces`."""
        return await self._run(admin.list_namespaces, timeout_s)

    async def bump_weight_epoch(self, fingerprint: str, *, timeout_s: float | None = None) -> int:
        """As :meth:`Client.bump_weight_epoch`."""
        return await self._run(
            lambda s: admin.bump_weight_epoch(s, fingerprint), timeout_s, repeatable=False
        )

    async def clear(
        self,
        scope: Scope = "tenant",
        *,
        fingerprint: str = "",
        tier: TierChoice = "all",
        pinned: bool = False,
        timeout_s: float | None = None,
    ) -> Removal:
        """As :meth:`Client.clear`."""
        return await self._run(
            lambda s: admin.clear(s, scope, tier, pinned, fingerprint), timeout_s
        )

    async def evict(
        self,
        *,
        bytes: int | None = None,
        blocks: int | None = None,
        timeout_s: float | None = None,
    ) -> Removal:
        """As :meth:`Client.evict`."""
        return await self._run(lambda s: admin.evict(s, bytes, blocks), timeout_s, repeatable=False)

    async def watch(self, callback: Callable[[Event], None]) -> None:
        """As :meth:`Client.watch`."""
        self._watcher = callback
        connection = await self._connected()
        connection.session.on_event = callback
        await self._run(admin.watch, None)
