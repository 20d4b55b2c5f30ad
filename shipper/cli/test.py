"""``shipper test``: sample lines become the records that were expected."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from shipper.cli.console import Config, Json, err, new_app, out, print_json
from shipper.cli.samples import read_samples
from shipper.config.cases import CaseFile, load_cases, pipelines_with_tests
from shipper.config.load import pipeline_names
from shipper.config.units import plural
from shipper.errors import ConfigError, UsageError
from shipper.report.markup import words
from shipper.report.preview_result import SampleToRead
from shipper.report.tested import CaseResult, CasesReport, Difference, compare

EPILOG = "Example: `shipper test` · `shipper test web_access --json`"
_BEFORE = 20
"""Characters that are shown before the first one that differs, of texts that are too long."""

app = new_app("test")


@app.command(epilog=EPILOG)
def run_tests(
    pipeline: Annotated[
        str | None, typer.Argument(help="Name of the pipeline.", show_default="all with tests")
    ] = None,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Test pipelines: read the sample lines of CONFIG/tests/PIPELINE.yaml as a run would, and
    compare topic, key, value, headers, and which lines are dropped or quarantined and why.

    No cluster is asked, no secret is needed, and the test takes seconds. Exit code 1 if something
    differs, 2 if a file is wrong. `shipper preview PIPELINE --save-test` writes a first file.
    """
    files = _load(config, [pipeline] if pipeline else pipelines_with_tests(config))
    if not files:
        raise UsageError(
            f"there are no tests in {config / 'tests'}. Write a first one with `shipper preview "
            "PIPELINE --save-test`.",
            code="SHIP-113",
        )
    samples = [_sample(config, file, name) for file in files for name in file.cases]
    if not as_json:
        err.say(f"Spark reads the samples of {plural(len(samples), 'case')} …", "dim")
    read = iter(read_samples(config, samples))
    cases = [compare(file, name, next(read)) for file in files for name in file.cases]
    tested = {file.pipeline.name for file in files}
    passed = sum(case.passed for case in cases)
    report = CasesReport(
        passed=passed,
        failed=len(cases) - passed,
        cases=cases,
        untested=[] if pipeline else sorted((pipeline_names(config) or set()) - tested),
    )
    if as_json:
        print_json(report)
    else:
        _show(report)
    raise typer.Exit(1 if report.failed else 0)


def _load(config: Path, names: list[str]) -> list[CaseFile]:
    """Raise ConfigError with the faults of all files."""
    files, faults = list[CaseFile](), list[str]()
    for name in names:
        try:
            files.append(load_cases(config, name))
        except ConfigError as error:
            faults.append(error.message)
    if faults:
        raise ConfigError("\n".join(faults), code="SHIP-204")
    return files


def _sample(config: Path, file: CaseFile, name: str) -> SampleToRead:
    case = file.cases[name]
    return SampleToRead(
        pipeline=file.pipeline.name,
        cluster=case.cluster,
        path=case.shown_path(config),
        content=file.sample(name),
    )


def _show(report: CasesReport) -> None:
    for case in report.cases:
        if not case.passed:
            _show_case(case)
    if report.untested:
        without = plural(len(report.untested), "pipeline")
        err.say(f"{without} without tests: {words(report.untested)}.", "dim")
    pipelines = plural(len({case.pipeline for case in report.cases}), "pipeline")
    total = plural(len(report.cases), "case")
    if report.failed:
        err.say(f"✗ {report.failed} of {total} of {pipelines} failed.", "bold red")
    else:
        out.say(f"✓ {total} of {pipelines} passed.", "green")


def _show_case(case: CaseResult) -> None:
    out.say(f"✗ {case.pipeline}: {case.case}  ({case.place})", "bold red")
    if case.error:
        out.say(f"  {case.error}")
    for _, group in groupby(case.differences, lambda found: found.record):
        differences = list(group)
        line = differences[0].line
        out.row(f"  line {differences[0].record} {'(none)' if line is None else line}")
        for difference in differences:
            _show_difference(difference)


def _show_difference(found: Difference) -> None:
    out.say(f"    {found.field}  ({found.place})")
    expected, is_there = _text(found.expected), _text(found.found)
    common = next(
        (at for at, pair in enumerate(zip(expected, is_there, strict=False)) if len({*pair}) > 1),
        min(len(expected), len(is_there)),
    )
    room = out.width - 15
    start = max(0, common - _BEFORE) if max(len(expected), len(is_there)) > room else 0
    for name, text, style in (("expected", expected, "green"), ("found", is_there, "red")):
        out.row(f"      {name:8} {'…' * bool(start)}{text[start:]}", style)


def _text(value: str | None) -> str:
    return "(nothing)" if value is None else value or "(empty)"
