"""The proxy's process: listens, joins connections, obeys what it is told on standard input."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
from typing import Any

from shipper_tools import faultproxy
from shipper_tools.faultproxy.link import FaultLink

_STEER = {"reshape", "cut", "stall", "resume", "hold_request", "hold_response", "release"}
_COMMANDS = _STEER | {"count", "note", "exchanged"}
"""Methods of the link that a line may name."""


async def _serve(listener: socket.socket, link: FaultLink) -> None:
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


def _obeyed(link: FaultLink, line: bytes) -> dict[str, Any]:
    try:
        command = json.loads(line)
        do = command.pop("do")
        if do not in _COMMANDS:
            raise ValueError(f"no command {do!r}")
        return {do: getattr(link, do)(**command)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _say(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    """Run the proxy until standard input ends or a signal arrives."""
    parser = argparse.ArgumentParser(
        prog="python -m shipper_tools.faultproxy",
        description=faultproxy.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--listen", default="127.0.0.1:0", help="HOST:PORT; port 0 takes any free one"
    )
    parser.add_argument("--to", required=True, help="HOST:PORT to connect to")
    arguments = parser.parse_args()
    listener = socket.create_server(_address(arguments.listen), backlog=1024)
    host, port = listener.getsockname()[:2]
    _say({"listening": f"{host}:{port}"})
    asyncio.run(_serve(listener, FaultLink(_address(arguments.to))))


if __name__ == "__main__":
    main()
