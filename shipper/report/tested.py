"""Results of `shipper test`: each case, and each difference between the records that a case expects
and those that the pipeline makes of its sample. Like a preview, they hold log lines, and are kept
nowhere."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from shipper.config.cases import CaseFile, Expectation
from shipper.report.preview_result import PreviewedLine, ReadSample
from shipper.report.run_folder import Result

ComparedField = Literal["record", "outcome", "topic", "key", "value", "headers", "timestamp"]


class Difference(Result):
    """One field of one record."""

    place: str
    """File, line and column of the expectation, or of the case if there is none."""
    record: int
    """Number of the record in the sample, from 1."""
    line: str | None
    """The record as it was read; None: the sample has no such record."""
    field: ComparedField
    """`record`: one of the two is missing."""
    expected: str | None
    """Expected value; None: nothing was expected, or that the record does not have the field."""
    found: str | None
    """Found value; None: nothing was found."""


class CaseResult(Result):
    """Result of one case."""

    pipeline: str
    case: str
    place: str
    """File, line and column."""
    records: int
    """Records of the sample."""
    passed: bool
    error: str | None
    """Reason why the sample could not be read."""
    differences: list[Difference]


class CasesReport(Result):
    """Results of all cases that were asked for."""

    version: Literal[1] = 1
    passed: int
    failed: int
    cases: list[CaseResult]
    untested: list[str]
    """Pipelines without a file of tests."""


def compare(file: CaseFile, name: str, read: ReadSample) -> CaseResult:
    """Compare the records that a case expects with those of its sample. A case has one expectation
    for each record, in order. An expectation or a record that is left over is a difference."""
    expected, found = file.cases[name].expect, read.lines
    differences = [] if read.error else list(_differences(file, name, expected, found))
    return CaseResult(
        pipeline=file.pipeline.name,
        case=name,
        place=file.place(name),
        records=len(found),
        passed=not differences and read.error is None,
        error=read.error,
        differences=differences,
    )


def _differences(
    file: CaseFile, name: str, expected: Sequence[Expectation], found: Sequence[PreviewedLine]
) -> Iterator[Difference]:
    for index, (want, line) in enumerate(zip_longest(expected, found)):
        for field, wanted, is_there in _fields(want, line):
            below = ("expect", index) if want else ()
            if want and field in want.model_fields_set:
                below = (*below, field)
            yield Difference(
                place=file.place(name, *below),
                record=index + 1,
                line=line.line if line else None,
                field=field,
                expected=wanted,
                found=is_there,
            )


def _fields(
    want: Expectation | None, line: PreviewedLine | None
) -> Iterator[tuple[ComparedField, str | None, str | None]]:
    """Yield what differs: field, expected, found."""
    if want is None or line is None:
        yield "record", _outcome(want) if want else None, _outcome(line) if line else None
        return
    # A case may name the fault, too.
    if want.outcome != line.outcome or want.why not in (None, line.why, line.why_in_full):
        yield "outcome", _outcome(want), _outcome(line)
        return
    time = None if line.timestamp_ms is None else moment(line.timestamp_ms)
    found = {"topic": line.topic, "key": line.key, "value": line.value, "timestamp": time}
    wanted = {"topic": want.topic, "key": want.key, "value": want.value}
    at = want.timestamp
    wanted["timestamp"] = None if at is None else moment(round(at.timestamp() * 1000))
    for field in ("topic", "key", "value", "timestamp"):
        compared = wanted[field] is not None or field in want.without
        if compared and wanted[field] != found[field]:
            yield field, wanted[field], found[field]
    if want.headers is not None and want.headers != line.headers:
        yield "headers", _headers(want.headers), _headers(line.headers)


def moment(milliseconds: int) -> str:
    """Return ``1793512800123`` as ``2026-11-01T06:00:00.123Z``; without the fraction if it is
    zero."""
    try:
        time = dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):  # a year that Python does not have
        return f"{milliseconds} ms"
    fraction = f".{milliseconds % 1000:03}" if milliseconds % 1000 else ""
    return f"{time:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _outcome(record: Expectation | PreviewedLine) -> str:
    """Return the outcome in words: ``shipped to logs.web``, ``dropped: health_checks``."""
    if record.outcome == "shipped":
        return f"shipped to {record.topic}" if record.topic else "shipped"
    why = record.why if isinstance(record, Expectation) else record.why_in_full
    return f"{record.outcome}: {why}"


def _headers(headers: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(headers.items())) or "none"
