"""The asyncio transport: a non-blocking socket watched by the event loop."""

from __future__ import annotations

import asyncio
import collections
import os
import socket
import time
from typing import TypeVar

from kvstrata.address import Address
from kvstrata.connection import GRACE_S, deadline_ms
from kvstrata.errors import ConnectionLost, DeadlineExceeded, Error, ProtocolError, Unavailable
from kvstrata.protocol import REQUESTS_IN_FLIGHT_MAX, MessageReader, Request, Verb
from kvstrata.session import Flow, Pause, Reply, Session, Work
from kvstrata.sockets import receive, send_some, tune

T = TypeVar("T")

_READS_PER_WAKE_UP = 64
_MIDWAY_S = 10.0  # how much longer an answer is waited for whose bytes are coming in
_MAINTENANCE_S = 0.2


class _Waiter:
    """One task waits here for one reply. A future that its task cancelled takes no answer."""

    __slots__ = ("future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[Reply] = loop.create_future()

    def set_result(self, reply: Reply) -> None:
        if not self.future.done():
            self.future.set_result(reply)

    def set_exception(self, error: Error) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # not a bug if its task is gone by now


class AsyncConnection:
    """One connection of the asyncio client; used on its event loop only."""

    def __init__(self, sock: socket.socket, session: Session) -> None:
        self.session = session
        session.send_outbox = self.send_outbox
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._reader = MessageReader()
        self._to_send: collections.deque[list[memoryview]] = collections.deque()
        self._is_writing = False
        self._is_maintaining = False
        self._last_received = time.monotonic()
        self._slots = asyncio.Semaphore(REQUESTS_IN_FLIGHT_MAX - 64)  # some are left for CANCEL
        self._loop.add_reader(sock, self._on_readable)

    @classmethod
    async def open(cls, address: Address, session: Session, timeout_s: float) -> AsyncConnection:
        """Connects; Unavailable if that fails within the time."""
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.sock_connect(sock, address.target), timeout_s)
            tune(sock)
        except OSError as error:  # TimeoutError is one
            sock.close()
            raise Unavailable(f"no daemon answers at {address}: {error or 'timed out'}") from error
        except BaseException:
            sock.close()
            raise
        return cls(sock, session)

    def close(self, error: Error | None = None) -> None:
        """Ends the connection; whoever waits gets ``error``."""
        self.session.fail(error or Unavailable("the connection was closed"))
        if self._socket.fileno() >= 0 and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            if self._is_writing:
                self._loop.remove_writer(self._socket)
        self._is_writing = False
        self._to_send.clear()
        self._reader.close()
        self._socket.close()

    # ---- driving flows

    async def drive(self, flow: Flow[T], deadline: float, grace_s: float = GRACE_S) -> T:
        """Runs a flow to its end. ``deadline`` is on the monotonic clock; the daemon may answer up
        to ``grace_s`` later. If the awaiting task is cancelled, so is the request."""
        try:
            step = next(flow)
            while True:
                try:
                    answer = await self._take(step, deadline, grace_s)
                except BaseException as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
        finally:
            flow.close()
            self.send_outbox()
        return result

    async def _take(
        self, step: Request | Work | Pause, deadline: float, grace_s: float
    ) -> Reply | None:
        match step:
            case Request():
                async with self._slots:
                    return await self._ask(step, deadline, grace_s)
            case Work():
                await self._work(step)
            case Pause():
                await asyncio.sleep(max(0.0, min(step.seconds, deadline - time.monotonic())))
        return None

    async def _work(self, work: Work) -> None:
        """Copies on a worker thread. A cancelled task waits for the copy to end: its target may
        be given to somebody else afterwards."""
        running = self._loop.run_in_executor(None, work.run)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    async def _ask(self, request: Request, deadline: float, grace_s: float) -> Reply:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceeded(f"{request.verb.name}: no time was left to ask")
        waiter = _Waiter(self._loop)
        request_id, parts = self.session.begin(request, waiter, deadline_ms(remaining))
        self._send(parts)
        try:
            while True:
                wait_s = max(0.02, deadline + grace_s - time.monotonic())
                done, _ = await asyncio.wait([waiter.future], timeout=wait_s)
                if done:
                    return waiter.future.result()
                self._answer_overdue(request, deadline, grace_s)
        except BaseException:
            if self.session.abandon(request_id):
                waiter.future.cancel()
                self._cancel(request_id)
            elif waiter.future.done() and waiter.future.exception() is None:
                self.session.give_back(request.verb, waiter.future.result().body)
            raise

    def _answer_overdue(self, request: Request, deadline: float, grace_s: float) -> None:
        now = time.monotonic()
        is_quiet = now - self._last_received >= grace_s
        if self._reader.is_midway and not is_quiet and now < deadline + _MIDWAY_S:
            return  # a large answer is coming in
        if is_quiet:  # not even "deadline exceeded" came: it hangs
            self.close(Unavailable("the daemon does not answer any more"))
        raise DeadlineExceeded(f"{request.verb.name}: the daemon did not answer in time")

    def _cancel(self, request_id: int) -> None:
        if self.session.is_open:
            self.session.outbox.append(Request(Verb.CANCEL, {"request": request_id}))
            self.send_outbox()

    # ---- sending

    def send_outbox(self) -> None:
        """Sends what nobody waits for."""
        session = self.session
        while session.outbox and session.is_open:
            _, parts = session.begin(session.outbox.popleft(), None, None)
            self._send(parts)

    def _send(self, parts: list[memoryview]) -> None:
        self._to_send.append(parts)
        if not self._is_writing:
            self._flush()

    def _flush(self) -> None:
        try:
            while self._to_send:
                self._to_send[0] = send_some(self._socket, self._to_send[0])
                if not self._to_send[0]:
                    self._to_send.popleft()
        except BlockingIOError:
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._socket, self._flush)
            return
        except OSError as error:
            self.close(ConnectionLost(f"the connection to the daemon broke: {error}"))
            return
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._socket)

    # ---- receiving

    def _on_readable(self) -> None:
        try:
            for _ in range(_READS_PER_WAKE_UP):
                if not self._receive_once():
                    self.close(Unavailable("the daemon closed the connection"))
                    return
        except BlockingIOError:
            pass
        except Error as error:
            self.close(error)
        except OSError as error:
            self.close(Unavailable(f"the connection to the daemon broke: {error}"))
        except Exception as error:  # a bug here must not leave callers waiting
            self.close(ProtocolError(f"reading the daemon's answer failed: {error!r}"))

    def _receive_once(self) -> bool:
        count, descriptors = receive(self._socket, self._reader.buffer())
        if count == 0:
            for descriptor in descriptors:
                os.close(descriptor)
            return False
        self._last_received = time.monotonic()
        for message in self._reader.advance(count, descriptors):
            self.session.receive(message)
        self.send_outbox()
        if self.session.needs_maintenance and not self._is_maintaining:
            self._is_maintaining = True
            self._loop.call_later(_MAINTENANCE_S, self._maintain)
        return True

    def _maintain(self) -> None:
        self._is_maintaining = False
        if self.session.is_open:
            self.session.maintain()
            self.send_outbox()
            if self.session.needs_maintenance:
                self._is_maintaining = True
                self._loop.call_later(_MAINTENANCE_S, self._maintain)
