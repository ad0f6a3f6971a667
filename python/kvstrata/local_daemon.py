"""A daemon of one's own: started, killed and started again by tests and by the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kvstrata.client import connect
from kvstrata.errors import Unavailable

_SOCKET_PATH_MAX = 100  # sun_path has 108 bytes


class LocalDaemon:
    """A kvstratad process with a data directory and a socket of its own. A context manager that
    stops it. Not for production: use the service manager there."""

    def __init__(self, binary: Path, data: Path, arguments: Sequence[str] = ()) -> None:
        """``arguments`` are passed on to kvstratad; its output goes to kvstratad.log beside
        ``data``."""
        self.binary = binary
        self.data = data
        self.log_path = data.parent / "kvstratad.log"
        self.arguments = list(arguments)
        socket = data.parent / "kvstrata.sock"
        if len(str(socket)) > _SOCKET_PATH_MAX:
            socket = Path(tempfile.mkdtemp(prefix="kvstrata-")) / "kvstrata.sock"
        self.socket = socket
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """For connect()."""
        return f"unix:{self.socket}"

    def start(self, timeout_s: float = 30.0) -> float:
        """Starts the daemon; seconds from its exec until it answered HELLO. Unavailable, with the
        end of its log, if it ended or did not answer in time."""
        self.data.parent.mkdir(parents=True, exist_ok=True)
        command = [
            str(self.binary), "--data", str(self.data), "--socket", str(self.socket),
            *self.arguments,
        ]  # fmt: skip
        with self.log_path.open("ab") as log:
            began = time.monotonic()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        while True:
            try:
                connect(self.address).close()
                return time.monotonic() - began
            except Unavailable as error:
                if self.process.poll() is not None or time.monotonic() - began > timeout_s:
                    self.kill()
                    raise Unavailable(f"{self.binary} did not start: {self._log_end()}") from error
            time.sleep(0.001)

    def kill(self) -> None:
        """kill -9: the daemon gets no chance to tidy up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the daemon as a service manager does; killed after 30 s."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _log_end(self) -> str:
        try:
            return self.log_path.read_text(errors="replace")[-2000:]
        except OSError:
            return "it left no log"

    def drop_page_cache(self) -> None:
        """Lets the kernel forget its copies of the data, so that reads come from the device."""
        for path in self.data.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
