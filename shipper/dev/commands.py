"""``shipper dev up``, ``down`` and ``status``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from shipper.dev import servers
from shipper.dev.servers import ServerName
from shipper.dev.state import ServerState, dev_home

app = typer.Typer(
    name="dev",
    help="Real servers for development, from jars alone: no Docker needed, only Java 17 or newer.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

Names = Annotated[list[ServerName] | None, typer.Argument(help="Which servers.", show_default="all of them")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else on stdout.")]


@app.command(
    epilog="Examples: `shipper dev up` · `shipper dev up kafka --port 19092` · `shipper dev up kafka --port 0` (any free port)"
)
def up(
    names: Names = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Where clients connect; 0 takes any free port.", show_default="kafka 9092"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start servers on loopback and leave them running.

    A server that runs already is left as it is. Data are kept in .dev/ (or $SHIPPER_DEV_HOME) and are there again after
    the next start. The first time, the jars are fetched into ~/.cache/shipper (or $SHIPPER_CACHE).
    """
    chosen = _chosen(names)
    if port is not None and len(chosen) != 1:
        raise typer.BadParameter("--port needs exactly one server, e.g. `shipper dev up kafka --port 19092`.")
    home = dev_home()
    started = [servers.bring_up(name, home, port, _say) for name in chosen]
    if as_json:
        _print_json(started)
    else:
        for server in started:
            _print(f"{server.name} runs at {_addresses(server)} ({_pids(server)}, data in {_short(server.directory)})")


@app.command(epilog="Examples: `shipper dev down` · `shipper dev down kafka --purge`")
def down(
    names: Names = None,
    purge: Annotated[bool, typer.Option("--purge", help="Delete their data and logs as well.")] = False,
) -> None:
    """Stop servers. Their data stay, unless --purge is given."""
    home = dev_home()
    for name in _chosen(names):
        servers.take_down(name, home, _say)
        if purge:
            servers.purge(name, home)
        _print(f"{name} is down" + (" and its data are deleted" if purge else ""))


@app.command(epilog="Examples: `shipper dev status` · `shipper dev status --json`")
def status(as_json: AsJson = False) -> None:
    """Say which servers run, and where."""
    home = dev_home()
    if as_json:
        _print_json(servers.running(home))
        return
    known = {server.name: server for server in servers.remembered(home)}
    table = Table("server", "state", "address", "processes", "folder", box=None, pad_edge=False)
    for name in ServerName:
        server = known.get(name)
        if server is None:
            table.add_row(name, "down", "", "", "")
        else:
            state = "running" if server.running else "died (see its logs/)"
            table.add_row(name, state, _addresses(server), _pids(server), _short(server.directory))
    Console().print(table)


def _chosen(names: list[ServerName] | None) -> list[ServerName]:
    return list(dict.fromkeys(names)) if names else list(ServerName)


def _document(server: ServerState) -> dict[str, object]:
    return {
        **server.addresses,
        "pids": [process.pid for process in server.processes],
        "directory": str(server.directory),
    }


def _addresses(server: ServerState) -> str:
    return ", ".join(server.addresses.values())


def _pids(server: ServerState) -> str:
    return "pid " + ", ".join(str(process.pid) for process in server.processes)


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _say(line: str) -> None:
    """Progress: on stderr, so that stdout holds the result alone."""
    Console(stderr=True).print(line, style="dim", markup=False, highlight=False, soft_wrap=True)


def _print(line: str) -> None:
    Console().print(line, markup=False, highlight=False, soft_wrap=True)


def _print_json(found: list[ServerState]) -> None:
    typer.echo(json.dumps({server.name: _document(server) for server in found}, indent=2))
