"""The servers that ``shipper dev`` knows, and how each is brought up and taken down."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from shipper_tools.dev import state
from shipper_tools.dev.errors import DevServerError, PortTaken
from shipper_tools.dev.jars import Say
from shipper_tools.dev.kafka import STOP_WITHIN_SECONDS, KafkaServer
from shipper_tools.dev.process import exclusive
from shipper_tools.dev.spark import SparkServer
from shipper_tools.dev.state import ServerState


class ServerName(StrEnum):
    KAFKA = "kafka"
    SPARK = "spark"


#: Where the example configuration expects them.
_PORTS: Mapping[ServerName, int] = {ServerName.KAFKA: 9092, ServerName.SPARK: 7077}
_NAMED_IN: Mapping[ServerName, str] = {ServerName.KAFKA: "config/clusters", ServerName.SPARK: "`runner.master`"}
#: What `shipper dev up` starts when nobody says what.
DEFAULT = (ServerName.KAFKA,)


def bring_up(name: ServerName, home: Path, port: int | None, say: Say) -> ServerState:
    """Start a server unless it runs, and remember it under ``home``. ``port``: None for its usual one, 0 for any.

    Raises:
        PortTaken: somebody else listens there. Nothing was started.
        DevServerError: it runs on another port than the one asked for, or did not start.
    """
    with exclusive(home / f"{name}.lock", lambda: say(f"waiting for another command that deals with {name}")):
        known = state.load(home, name)
        if known is not None and known.running:
            _check_port(known, port)
            say(f"{name} runs already")
            return known
        if known is not None:
            known.stop(STOP_WITHIN_SECONDS)  # of several processes one died; the others would be in the way
        say(f"starting {name} …")
        server = _server(name, home, (_PORTS[name] if port is None else port) or None, say)
        try:
            server.launch()
        except PortTaken as taken:
            raise PortTaken(
                f"{taken} Stop what listens there (`ss -ltnp` shows it; perhaps `shipper dev up` in another folder), or "
                f"choose another port with `shipper dev up {name} --port PORT` (0: any free one) and name that one in "
                f"{_NAMED_IN[name]} too."
            ) from taken
        started = ServerState(name, server.addresses, home / name, server.processes)
        # Before it is ready: should this command be killed now, the next one finds the server and can stop it.
        state.save(home, started)
        try:
            server.wait_ready()
        except BaseException:
            state.forget(home, name)
            raise
        return started


def _server(name: ServerName, home: Path, port: int | None, say: Say) -> KafkaServer | SparkServer:
    return SparkServer(home / name, port) if name == ServerName.SPARK else KafkaServer(home / name, port, say=say)


def _check_port(known: ServerState, port: int | None) -> None:
    if port and not any(address.endswith(f":{port}") for address in known.addresses.values()):
        addresses = ", ".join(known.addresses.values())
        raise DevServerError(
            f"{known.name} runs already, at {addresses}, not on port {port}. To move it: `shipper dev down {known.name}` "
            "first; its data stay."
        )


def take_down(name: ServerName, home: Path, say: Say) -> None:
    """Stop a server if it runs. Its data stay."""
    with exclusive(home / f"{name}.lock", lambda: say(f"waiting for another command that deals with {name}")):
        known = state.load(home, name)
        if known is None or not known.running:
            say(f"{name} is not running")
        if known is not None:
            known.stop(STOP_WITHIN_SECONDS)  # of several processes one may have died; the others are stopped
            state.forget(home, name)


def purge(name: ServerName, home: Path) -> None:
    """Delete the data and logs of a server that was taken down."""
    shutil.rmtree(home / name, ignore_errors=True)


def running(home: Path) -> list[ServerState]:
    """The servers that run now, in the order of their names."""
    return [known for known in remembered(home) if known.running]


def remembered(home: Path) -> list[ServerState]:
    """The servers that were started and not stopped, those that died included."""
    return [known for name in ServerName if (known := state.load(home, name)) is not None]
