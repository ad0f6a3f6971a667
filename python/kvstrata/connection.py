"""The blocking transport: a socket, and a thread that reads from it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from typing import TypeVar

from kvstrata.address import Address
from kvstrata.errors import ConnectionLost, DeadlineExceeded, Error, ProtocolError, Unavailable
from kvstrata.protocol import DEADLINE_MS_MAX, MessageReader, Request, Verb
from kvstrata.session import Flow, Pause, Reply, Session, Work
from kvstrata.sockets import receive, send_some, tune

T = TypeVar("T")

GRACE_S = 1.0
"""How long after its deadline an answer may come before the daemon counts as hung."""
_MIDWAY_S = 10.0  # how much longer an answer is waited for whose bytes are coming in
_MAINTENANCE_S = 0.2


def deadline_ms(remaining_s: float) -> int:
    """A request's ``deadline_ms`` for the time that is left."""
    return max(1, min(DEADLINE_MS_MAX, int(remaining_s * 1000)))


class _Waiter:
    """One thread waits here for one reply."""

    __slots__ = ("_done", "_error", "_reply")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self._reply: Reply | None = None
        self._error: Error | None = None

    def set_result(self, reply: Reply) -> None:
        self._reply = reply
        self._done.release()

    def set_exception(self, error: Error) -> None:
        self._error = error
        self._done.release()

    def wait(self, timeout_s: float) -> bool:
        return self._done.acquire(timeout=timeout_s)

    def reply_if_any(self) -> Reply | None:
        return self._reply

    def result(self) -> Reply:
        if self._error is not None:
            raise self._error
        assert self._reply is not None
        return self._reply


class Connection:
    """One connection of the blocking client. Any thread may send; one thread of its own reads."""

    def __init__(self, sock: socket.socket, session: Session) -> None:
        self.session = session
        session.send_outbox = self.send_outbox
        self._socket = sock
        self._reader = MessageReader()
        self._send_lock = threading.Lock()
        self._last_received = time.monotonic()
        self._thread = threading.Thread(target=self._read_loop, name="kvstrata-reader", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, address: Address, session: Session, timeout_s: float) -> Connection:
        """Connects; Unavailable if that fails within the time."""
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout_s)
            sock.connect(address.target)
            tune(sock)
            sock.settimeout(None)
        except OSError as error:
            sock.close()
            raise Unavailable(f"no daemon answers at {address}: {error}") from error
        return cls(sock, session)

    def close(self, error: Error | None = None) -> None:
        """Ends the connection; whoever waits gets ``error``."""
        self.session.fail(error or Unavailable("the connection was closed"))
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reader, which closes the socket

    def forget(self) -> None:
        """In a forked child: lets go of the parent's connection without ending it."""
        self._socket.close()

    # ---- driving flows

    def drive(self, flow: Flow[T], deadline: float, grace_s: float = GRACE_S) -> T:
        """Runs a flow to its end. ``deadline`` is on the monotonic clock; the daemon may answer up
        to ``grace_s`` later, since it is the one that keeps deadlines."""
        try:
            step = next(flow)
            while True:
                try:
                    answer = self._take(step, deadline, grace_s)
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

    def _take(self, step: Request | Work | Pause, deadline: float, grace_s: float) -> Reply | None:
        match step:
            case Request():
                return self._ask(step, deadline, grace_s)
            case Work():
                step.run()
            case Pause():
                time.sleep(max(0.0, min(step.seconds, deadline - time.monotonic())))
        return None

    def _ask(self, request: Request, deadline: float, grace_s: float) -> Reply:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceeded(f"{request.verb.name}: no time was left to ask")
        waiter = _Waiter()
        request_id, parts = self.session.begin(request, waiter, deadline_ms(remaining))
        try:
            self._send(parts, deadline)
        except BaseException:
            self.session.forget(request_id)
            raise
        try:
            while not waiter.wait(max(0.02, deadline + grace_s - time.monotonic())):
                self._answer_overdue(request, deadline, grace_s)
        except BaseException:
            if self.session.abandon(request_id):
                self._cancel_later(request_id)
            elif waiter.wait(1.0) and (reply := waiter.reply_if_any()):
                self.session.give_back(request.verb, reply.body)
            raise
        return waiter.result()

    def _answer_overdue(self, request: Request, deadline: float, grace_s: float) -> None:
        now = time.monotonic()
        is_quiet = now - self._last_received >= grace_s
        if self._reader.is_midway and not is_quiet and now < deadline + _MIDWAY_S:
            return  # a large answer is coming in
        if is_quiet:  # not even "deadline exceeded" came: it hangs
            self.close(Unavailable("the daemon does not answer any more"))
        raise DeadlineExceeded(f"{request.verb.name}: the daemon did not answer in time")

    def _cancel_later(self, request_id: int) -> None:
        if self.session.is_open:
            self.session.outbox.append(Request(Verb.CANCEL, {"request": request_id}))
            self.send_outbox()

    # ---- sending

    def send_outbox(self) -> None:
        """Sends what nobody waits for. Errors end the connection and are not raised."""
        session = self.session
        while session.outbox and session.is_open:
            try:
                request = session.outbox.popleft()
                _, parts = session.begin(request, None, None)
                self._send(parts, time.monotonic() + GRACE_S)
            except (IndexError, Error):
                return

    def _send(self, parts: list[memoryview], deadline: float) -> None:
        """Sends one message whole. If that fails midway the connection ends."""
        if not self._send_lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise DeadlineExceeded("other requests of this connection can't be sent either")
        begun = False
        try:
            while parts:
                try:
                    parts = send_some(self._socket, parts)
                    begun = True
                except BlockingIOError:
                    self._wait_writable(deadline)
        except OSError as error:
            failure = ConnectionLost(f"the connection to the daemon broke: {error}")
            self.close(failure)
            raise failure from error
        except BaseException:
            if begun:
                self.close(Unavailable("a message was not sent to its end"))
            raise
        finally:
            self._send_lock.release()

    def _wait_writable(self, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise DeadlineExceeded("the daemon does not read what is sent to it")

    # ---- receiving, on the reader's thread

    def _read_loop(self) -> None:
        try:
            while self._receive_once():
                pass
            error: Error = Unavailable("the daemon closed the connection")
        except Error as problem:
            error = problem
        except OSError as problem:
            error = Unavailable(f"the connection to the daemon broke: {problem}")
        except Exception as problem:  # a bug here must not leave callers waiting
            error = ProtocolError(f"reading the daemon's answer failed: {problem!r}")
        self.session.fail(error)
        self._reader.close()
        self._socket.close()

    def _receive_once(self) -> bool:
        session = self.session
        if session.needs_maintenance:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if not poll.poll(_MAINTENANCE_S * 1000):
                session.maintain()
                self.send_outbox()
                return True
        count, descriptors = receive(self._socket, self._reader.buffer())
        if count == 0:
            for descriptor in descriptors:
                os.close(descriptor)
            return False
        self._last_received = time.monotonic()
        for message in self._reader.advance(count, descriptors):
            session.receive(message)
        if session.outbox:
            self.send_outbox()
        return True
