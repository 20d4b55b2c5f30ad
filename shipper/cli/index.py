"""``shipper index``: brings the index of the Shipments page up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shipper.cli.console import Config, Json, err, new_app, out, print_json
from shipper.cli.open_ledger import moment_or_age
from shipper.report.markup import plural
from shipper.shipments.feed import index_path, rebuild

_SHOWN = 5

app = new_app("index")


@app.command(
    epilog="Example: `shipper index` · `shipper index --since 30d` · `shipper index --anew`"
)
def index(
    config: Config = Path("config"),
    since: Annotated[
        str | None,
        typer.Option(
            help="A date, or an age such as 7d: windows before it stay as they are.",
            show_default="all",
        ),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Delete the index first, and read every report again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read the reports in `runs_uri` that the index of the Shipments page does not know yet.

    The index is a cache: every run updates it, and it may be deleted at any time. Run this once for
    runs from before there was an index, and regularly if runs and page are on different machines. A
    report that cannot be read is named and skipped: exit code 1.
    """
    first = moment_or_age(since, "--since") if since else None
    done = rebuild(config, anew=anew, since=first, say=lambda text: err.say(text, "dim"))
    if as_json:
        print_json({"index": str(index_path(config)), **vars(done)})
    else:
        for problem in done.problems[:_SHOWN]:
            err.say(problem, "red")
        err.say_more(len(done.problems), _SHOWN, "--json lists all")
        what = (
            f"{plural(done.pipelines, 'pipeline')}, {plural(done.runs, 'report')} read, "
            f"{plural(done.there, 'run')} known before"
        )
        out.say(f"{index_path(config)}: {what}.")
    raise typer.Exit(1 if done.problems else 0)
