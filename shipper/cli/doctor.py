"""``shipper doctor``: is everything there that a run needs?"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from shipper.cli.console import Config, Json, new_app, out, print_json
from shipper.config.environment import OF_AIRFLOW
from shipper.config.load import load_all, load_pipeline
from shipper.config.pipeline import Pipeline
from shipper.config.units import plural
from shipper.driver.checks import machine
from shipper.driver.checks.catalogue import LIMIT_SECONDS, SKIPPED, CheckTarget, examine
from shipper.driver.checks.remote import examined
from shipper.errors import ShipperError
from shipper.finding import Finding, fail, of_error, ok

app = new_app("doctor")

_MARKS = {
    "ok": ("✓", ""),
    "warn": ("!", "yellow"),
    "fail": ("✗", "red"),
    SKIPPED: ("–", "dim"),
}
_WORDS = {"fail": "to mend", "warn": "to look at", SKIPPED: "not looked at"}


@app.command(
    epilog="Examples: `shipper doctor` · `shipper doctor web_access` · `shipper doctor web_access "
    "--json`"
)
def doctor(
    pipeline: Annotated[
        str | None,
        typer.Argument(
            help="Also its source, topics, rights, ledger and results.",
            show_default="this machine and all clusters",
        ),
    ] = None,
    config: Config = Path("config"),
    limit: Annotated[
        float, typer.Option("--limit", min=1, help="Seconds that one check may take.")
    ] = LIMIT_SECONDS,
    as_json: Json = False,
) -> None:
    """Check everything that a run needs, and show the finding of each check, with a remedy for each
    fault. Ship nothing and change nothing.

    Exit code 1 if something must be repaired.
    """
    found = findings(config, pipeline, limit)
    bad = any(finding.severity == "fail" for finding in found)
    if as_json:
        shown = [asdict(finding) for finding in found]
        print_json({"pipeline": pipeline, "ok": not bad, "findings": shown})
    else:
        _show(found)
    raise typer.Exit(1 if bad else 0)


def findings(config: Path, name: str | None, limit_seconds: float) -> list[Finding]:
    """Return the findings. Never raises."""
    first: list[Finding] = []
    pipeline: Pipeline | None = None
    clusters: tuple[str, ...] = ()
    try:
        if name is not None:
            pipeline = load_pipeline(config, name)
            clusters = tuple(pipeline.clusters)
            first.append(ok(f"pipeline {name} is right"))
        else:
            loaded = load_all(config, leave=OF_AIRFLOW)
            clusters = tuple(sorted(loaded.clusters))
            first += [
                fail(str(fault), "`shipper validate` shows all faults") for fault in loaded.faults
            ]
            if not loaded.faults:
                first.append(
                    ok(
                        f"{plural(len(loaded.pipelines), 'pipeline')} and "
                        f"{plural(len(clusters), 'cluster')} are right"
                    )
                )
    except ShipperError as error:
        first.append(replace(of_error(error), remedy="`shipper validate` shows all faults"))
    here = CheckTarget(config, pipeline, limit_seconds)
    asked = [
        replace(here, limit_seconds=0.9 * limit_seconds, checks=machine.CHECKS),
        *(examined(each, here) for each in clusters),
    ]
    return [replace(each, subject="configuration") for each in first] + examine(
        asked, limit_seconds
    )


def _show(found: list[Finding]) -> None:
    """Print a line for each finding; the remedy below it. Readable without colours."""
    kinds = [finding.code if finding.code in _MARKS else finding.severity for finding in found]
    for finding, kind in zip(found, kinds, strict=True):
        mark, style = _MARKS[kind]
        where = f"{finding.cluster}: {finding.subject}" if finding.cluster else finding.subject
        out.say(f"{mark} {where}: {finding.text}".removesuffix(": "), style)
        if finding.remedy:
            out.say(f"    → {finding.remedy}", style)
    words = [f"{count} {word}" for kind, word in _WORDS.items() if (count := kinds.count(kind))]
    out.say(
        f"{plural(len(found), 'check')}: {', '.join(words) if words else 'all is well'}.",
        "red" if "fail" in kinds else "green",
    )
