"""``shipper ui``: the Shipments page without Airflow."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from shipper.cli.console import Config, err, new_app
from shipper.errors import UsageError, why_system
from shipper.shipments.feed import index_path, rebuild
from shipper.stopping import Stopped

app = new_app("ui")


@app.command(epilog="Example: `shipper ui` · `shipper ui --port 8090`")
def ui(
    config: Config = Path("config"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0 takes a free one.")
    ] = 8793,
) -> None:
    """Show the shipped, late and missing windows on a page for a browser on this machine.

    While the page is served, every user with an account on this machine can open it. In Airflow the
    same page checks each person's rights.
    """
    if not find_spec("fastapi") or not find_spec("uvicorn"):
        raise UsageError(
            f"`shipper ui` needs packages that are not installed: `pip install "
            f"'shipper[ui]=={version('shipper')}'`",
            code="SHIP-110",
        )
    from shipper.shipments.server import Server

    path = index_path(config)
    if not path.exists():
        err.say(f"There is no index {path} yet: reading the reports once …", "dim")
        done = rebuild(config, say=lambda text: err.say(text, "dim"))
        for problem in done.problems:
            err.say(problem, "red")
    try:
        server = Server(path, port, config)
    except OSError as error:
        raise UsageError(
            f"port {port} of 127.0.0.1 cannot be used: {why_system(error)}. Choose another "
            "port with --port."
        ) from error
    err.say(f"The Shipments page is at {server.url} until Ctrl-C.")
    try:
        server.run()
    except (Stopped, KeyboardInterrupt):
        err.say("Stopped.", "dim")
