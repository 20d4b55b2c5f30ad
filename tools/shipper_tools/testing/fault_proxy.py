"""A TCP proxy in a process of its own that makes a link to a real broker long, narrow or broken, on demand.

By hand, controlled by lines on standard input, one JSON document back for each::

    $ python -m shipper_tools.testing.fault_proxy --listen 127.0.0.1:0 --to 127.0.0.1:9092 --rtt 140ms
    {"listening": "127.0.0.1:40123"}
    {"do": "cut"}
    {"cut": 3}

In a test, one proxy for each listener that a broker advertises, since clients reconnect to what is advertised::

    far_port = free_port()
    with KafkaServer(tmp_path, far_port=far_port) as kafka, FaultProxy(kafka.far_listener, far_port, rtt_ms=140) as link:
        ...                       # clients use kafka.far_bootstrap
        link.hold_request(26)     # the next EndTxn stops here, and all that its connection sends after it
        link.wait_held(10)
        link.release()            # it reaches the broker also when its client has hung up meanwhile

Limits: a client's connect succeeds also when the broker is gone, and is reset then. Holds and ``request_delay_ms`` understand
Kafka's framing without TLS only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, Unpack

from shipper.errors import ShipperError
from shipper_tools.testing.fault_link import Exchange, Link, Shape


class LinkShape(TypedDict, total=False):
    """What a link is like; what is left out stays as it is, at first 0: no limit, no delay."""

    rtt_ms: float
    """Round trip: half of it each way. A connection's handshake takes one as well."""
    jitter_ms: float
    """Up to this much more, each way; the order of bytes is kept."""
    bytes_per_second: float
    """In each direction, over all connections."""
    request_delay_ms: float
    """Each Kafka request of a connection is handed on this long after the one before: a broker that is slow per request."""


class FaultProxyError(ShipperError):
    """The proxy's process did not start, died, or refused a command."""


class FaultProxy:
    """Starts and stops the process, and tells it what to do. Every method returns when it is done. Threads may share it.

    Args:
        to: where it connects to, ``HOST:PORT``.
        port: where it listens on loopback; 0 for any free one, known as :attr:`port` once it was started.
    """

    def __init__(self, to: str, port: int = 0, **shape: Unpack[LinkShape]) -> None:
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
        root = Path(__file__).resolve().parents[2]
        # The process ends when its standard input does, that is when this process ends, however it does.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shipper_tools.testing.fault_proxy", "--listen", self.address, "--to", self.to],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])},
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def shape(self, **shape: Unpack[LinkShape]) -> None:
        """Changes what the link is like, also for connections that are open. Bytes under way keep their times."""
        self._tell("shape", **shape)

    def cut(self) -> int:
        """Closes every connection; new ones are welcome. Returns how many there were."""
        return int(self._tell("cut")["cut"])

    def reset(self) -> int:
        """As :meth:`cut`, with a TCP reset."""
        return int(self._tell("reset")["reset"])

    def stall(self) -> None:
        """Nothing moves, connections stay open, new ones too: a black hole."""
        self._tell("stall")

    def resume(self) -> None:
        """Ends :meth:`stall`; what waited goes on."""
        self._tell("resume")

    def hold_request(self, api_key: int) -> None:
        """The next Kafka request with this API key (0 Produce, 22 InitProducerId, 24 AddPartitionsToTxn, 26 EndTxn) does not
        reach the broker before :meth:`release`, nor does what the same connection sends after it."""
        self._tell("hold_request", api_key=api_key)

    def hold_response(self, api_key: int) -> None:
        """The next such request is carried out, but its response, and those after it, do not arrive before :meth:`release`."""
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
        """Lets go what is held and disarms what would be; returns how many requests and responses were held."""
        return int(self._tell("release")["release"])

    def counts(self) -> dict[str, Any]:
        """``open``, ``accepted`` and ``closed_by_fault`` connections, ``held``, ``bytes_up``, ``bytes_down``, ``requests`` by API key
        (as text), and the process' ``cpu_seconds``."""
        return self._tell("counts")

    def note_exchanges(self) -> None:
        """From now on every request and its answer is noted."""
        self._tell("note")

    def exchanges(self) -> list[Exchange]:
        """Since :meth:`note_exchanges`, or since this was asked before."""
        return [Exchange(**fields) for fields in self._tell("exchanges")["exchanges"]]

    def _tell(self, do: str, **arguments: Any) -> dict[str, Any]:
        with self._lock:
            process = self._process
            if process is None or process.stdin is None:
                raise FaultProxyError(f"the proxy to {self.to} is not running")
            try:
                process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
                process.stdin.flush()
            except OSError as error:
                raise FaultProxyError(f"the proxy to {self.to} died (exit code {process.poll()})") from error
            answer = self._answer()
        if "error" in answer:
            raise FaultProxyError(f"the proxy to {self.to} cannot {do}: {answer['error']}")
        return answer

    def _answer(self) -> dict[str, Any]:
        process = self._process
        line = process.stdout.readline() if process and process.stdout else ""
        if not line:
            raise FaultProxyError(f"the proxy to {self.to} ended; its standard error says why (is port {self.port} taken?)")
        found: dict[str, Any] = json.loads(line)
        return found


def _shape(link: Link, told: LinkShape) -> None:
    shape = link.shape
    if "rtt_ms" in told:
        shape.one_way_seconds = told["rtt_ms"] / 2000
    if "jitter_ms" in told:
        shape.jitter_seconds = told["jitter_ms"] / 1000
    if "bytes_per_second" in told:
        shape.bytes_per_second = told["bytes_per_second"]
    if "request_delay_ms" in told:
        shape.request_seconds = told["request_delay_ms"] / 1000


def obey(link: Link, command: dict[str, Any]) -> dict[str, Any]:
    """Carries out one command, and says what it did; raises KeyError, TypeError or ValueError for one that is none."""
    do = command.pop("do")
    if do == "shape":
        unknown = command.keys() - LinkShape.__annotations__.keys()
        if unknown:
            raise ValueError(f"no such property: {', '.join(sorted(unknown))}")
        _shape(link, LinkShape(**command))  # type: ignore[typeddict-item]
        return {"shape": asdict(link.shape)}
    if do in ("hold_request", "hold_response"):
        setattr(link, do, int(command["api_key"]))
        return {do: command["api_key"]}
    if do in ("stall", "resume"):
        (link.stall if do == "stall" else link.resume)()
        return {"stalled": link.stalled}
    if do in ("cut", "reset", "release"):
        return {do: {"cut": link.cut, "reset": link.reset, "release": link.release}[do]()}
    if do == "note":
        link.exchanges = []
        return {"noting": True}
    if do == "exchanges":
        found, link.exchanges = link.exchanges or [], []
        return {"exchanges": [asdict(exchange) for exchange in found]}
    if do != "counts":
        raise ValueError(f"no command {do!r}")
    return _counts(link)


def _counts(link: Link) -> dict[str, Any]:
    return {**asdict(link.counts), "open": len(link.connections), "held": link.held(), "cpu_seconds": time.process_time()}


async def _serve(listener: socket.socket, link: Link) -> None:
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    left = b""

    def read() -> None:
        nonlocal left
        data = os.read(0, 1 << 16)
        if not data and not ended.done():
            loop.remove_reader(0)
            ended.set_result(None)
        *lines, left = (left + data).split(b"\n")
        for line in lines:
            _say(_obeyed(link, line))

    # Neither pipe nor terminal, for example /dev/null: without control, until a signal stops it.
    with contextlib.suppress(OSError):
        loop.add_reader(0, read)
    serving = loop.create_task(link.serve(listener))
    await asyncio.wait([ended, serving], return_when=asyncio.FIRST_COMPLETED)
    link.cut()


def _obeyed(link: Link, line: bytes) -> dict[str, Any]:
    try:
        return obey(link, json.loads(line))
    except (KeyError, TypeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _say(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _given_shape(arguments: argparse.Namespace) -> Shape:
    if not (arguments.rtt or arguments.jitter or arguments.bandwidth or arguments.request_delay):
        return Shape()  # FaultProxy tells it later, and need not wait for an import of half a second
    from shipper.config.units import parse_duration, parse_size

    return Shape(
        one_way_seconds=parse_duration(arguments.rtt or "0s") / 2,
        jitter_seconds=parse_duration(arguments.jitter or "0s"),
        bytes_per_second=parse_size(arguments.bandwidth) if arguments.bandwidth else 0.0,
        request_seconds=parse_duration(arguments.request_delay or "0s"),
    )


def main(argv: list[str] | None = None) -> None:
    """Runs the proxy until standard input ends or a signal arrives."""
    parser = argparse.ArgumentParser(
        prog="python -m shipper_tools.testing.fault_proxy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT; port 0 takes any free one")
    parser.add_argument("--to", required=True, help="HOST:PORT to connect to")
    parser.add_argument("--rtt", help="round trip, e.g. 140ms")
    parser.add_argument("--jitter", help="up to this much more each way")
    parser.add_argument("--bandwidth", help="bytes per second in each direction, e.g. 10MB")
    parser.add_argument("--request-delay", help="each Kafka request of a connection takes this long")
    parser.add_argument("--seed", type=int, default=0, help="of the jitter")
    arguments = parser.parse_args(argv)
    shape = _given_shape(arguments)
    listener = socket.create_server(_address(arguments.listen), backlog=1024)
    host, port = listener.getsockname()[:2]
    _say({"listening": f"{host}:{port}"})
    asyncio.run(_serve(listener, Link(_address(arguments.to), shape, arguments.seed)))


if __name__ == "__main__":
    main()
