"""What ``shipper dev up`` leaves behind for the commands after it: one JSON file per server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from shipper.processes import ProcessId
from shipper.whole_files import write_whole
from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.process import stop_family


@dataclass(frozen=True)
class ServerState:
    """A server that was started and not yet stopped. It may have died since.

    Attributes:
        name: the server's name, e.g. ``kafka``.
        addresses: where it is reached, e.g. ``{"bootstrap": "127.0.0.1:9092"}``.
        directory: its data and logs.
        processes: in the order in which they were started.
        ready: it has answered since its start.
    """

    name: str
    addresses: Mapping[str, str]
    directory: Path
    processes: tuple[ProcessId, ...]
    ready: bool = True

    @property
    def running(self) -> bool:
        """Whether all of its processes are there."""
        return all(process.alive() for process in self.processes)

    def stop(self, grace_seconds: float) -> None:
        """End its processes, the last one first, each within ``grace_seconds`` and with what it
        started."""
        for process in reversed(self.processes):
            stop_family(process, grace_seconds)


_STATES = TypeAdapter(ServerState)


def dev_home(environ: Mapping[str, str] = os.environ) -> Path:
    """``$SHIPPER_DEV_HOME``, else ``.dev`` in the current directory."""
    return Path(environ.get("SHIPPER_DEV_HOME") or ".dev").absolute()


def save(home: Path, state: ServerState) -> None:
    """Remember a server. A reader sees the old file or the new one, never half of one."""
    write_whole(str(_file(home, state.name)), _STATES.dump_json(state, indent=2).decode() + "\n")


def load(home: Path, name: str) -> ServerState | None:
    """Return what is remembered of the server ``name``; None if nothing is.

    Raises:
        DevServerError: the file cannot be understood.
    """
    path = _file(home, name)
    try:
        return _STATES.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise DevServerError(
            f"{path} does not say where {name} runs ({type(problem).__name__}: {problem}). Stop "
            "the server by hand if it runs, and delete the file."
        ) from problem


def forget(home: Path, name: str) -> None:
    """Remember nothing of the server ``name`` any more. Its data stay."""
    _file(home, name).unlink(missing_ok=True)


def _file(home: Path, name: str) -> Path:
    return home / f"{name}.json"
