"""The proxy for whoever steers it: :class:`FaultProxy` starts its process and tells it what
to do."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any

from shipper.errors import ShipperError
from shipper_tools.faultproxy.link import Exchange


class FaultProxyError(ShipperError):
    """The proxy's process did not start, died, or refused a command."""


class FaultProxy:
    """Starts and stops the process, and tells it what to do. Every method returns when it is done.
    Threads may share it.

    Args:
        to: where it connects to, ``HOST:PORT``.
        port: where it listens on loopback; 0 for any free one, known once it was started.
        shape: see :class:`~shipper_tools.faultproxy.link.Conditions`.
    """

    def __init__(self, to: str, port: int = 0, **shape: float) -> None:
        self.to = to
        self.port = port
        self._shape = shape
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``, for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the proxy's process."""
        if self._process is None:
            raise FaultProxyError(f"the proxy to {self.to} is not running")
        return self._process.pid

    def start(self) -> FaultProxy:
        """Raises FaultProxyError, for example when the port is taken."""
        words = f"-m shipper_tools.faultproxy --listen {self.address} --to {self.to}"
        # The process ends when its standard input does, that is when this process ends, however it
        # does.
        self._process = subprocess.Popen(
            [sys.executable, *words.split()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.port = int(self._answer()["listening"].rpartition(":")[2])
        self.shape(**self._shape)
        return self

    def stop(self) -> None:
        """Every connection ends. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        process.communicate()

    def __enter__(self) -> FaultProxy:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def shape(self, **shape: float) -> None:
        """Changes conditions, also for connections that are open; those left out stay as they are.
        Bytes under way keep their times."""
        self._tell("reshape", **shape)

    def cut(self) -> int:
        """Closes every connection; new ones are welcome. Returns how many there were."""
        return int(self._tell("cut"))

    def reset(self) -> int:
        """As :meth:`cut`, with a TCP reset."""
        return int(self._tell("cut", reset=True))

    def stall(self) -> None:
        """Nothing moves, connections stay open, new ones too: a black hole."""
        self._tell("stall")

    def resume(self) -> None:
        """Ends :meth:`stall`; what waited goes on."""
        self._tell("resume")

    def hold_request(self, api_key: int) -> None:
        """The next Kafka request with this API key (0 Produce, 22 InitProducerId, 24
        AddPartitionsToTxn, 26 EndTxn) does not reach the broker before :meth:`release`, nor does
        what the same connection sends after it."""
        self._tell("hold_request", api_key=api_key)

    def hold_response(self, api_key: int) -> None:
        """The next such request is carried out, but its response, and those after it, do not arrive
        before :meth:`release`."""
        self._tell("hold_response", api_key=api_key)

    def wait_held(self, timeout_seconds: float) -> bool:
        """Waits until a request or response is held; False if none was by then."""
        deadline = time.monotonic() + timeout_seconds
        while not self.counts()["held"]:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def release(self) -> int:
        """Lets go what is held and disarms what would be; returns how many requests and responses
        were held."""
        return int(self._tell("release"))

    def counts(self) -> dict[str, int]:
        """``open`` connections, ``held`` requests and responses, ``bytes_up``."""
        counts: dict[str, int] = self._tell("count")
        return counts

    def note_exchanges(self) -> None:
        """From now on every request and its answer is noted."""
        self._tell("note")

    def exchanges(self) -> list[Exchange]:
        """Since :meth:`note_exchanges`, or since this was asked before."""
        return [Exchange(**fields) for fields in self._tell("exchanged")]

    def _tell(self, do: str, **arguments: Any) -> Any:
        with self._lock:
            process = self._process
            if process is None or process.stdin is None:
                raise FaultProxyError(f"the proxy to {self.to} is not running")
            try:
                process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
                process.stdin.flush()
            except OSError as error:
                raise FaultProxyError(
                    f"the proxy to {self.to} died (exit code {process.poll()})"
                ) from error
            answer = self._answer()
        if "error" in answer:
            raise FaultProxyError(f"the proxy to {self.to} cannot {do}: {answer['error']}")
        return answer[do]

    def _answer(self) -> dict[str, Any]:
        process = self._process
        line = process.stdout.readline() if process and process.stdout else ""
        if not line:
            raise FaultProxyError(
                f"the proxy to {self.to} ended; its standard error says why (is port {self.port} "
                "taken?)"
            )
        found: dict[str, Any] = json.loads(line)
        return found
