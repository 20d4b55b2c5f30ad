"""The checks of a source gate: what is refused at load and how it says so, and the SQL that each
makes of a user's words."""

import datetime as dt
import re
from pathlib import Path
from typing import get_args

import pytest
from faults import names_in

from shipper.config.content_checks import RecordCheck, RowsCheck, SourceCheck
from shipper.config.load import load_all
from shipper.config.rules import PathTime
from tests.samples.config import write_config

KINDS = get_args(get_args(SourceCheck)[0])
NAMES = [get_args(kind.model_fields["check"].annotation)[0] for kind in KINDS]


def faults_of(tmp_path, check, source="s3a://logs/{window_start:%Y/%m/%d/%H}/", more=""):
    """Faults of a pipeline with this one check, from the field on."""
    if not source.startswith("{"):
        source = f"'{source}'"
    text = (
        f"pipeline: web\nsource: {source}\nclusters: [c]\nrecords: {{columns: {{host: value}}}}\n"
    )
    text += (more or "topic: logs.web\n") + f"gates:\n  source:\n    - {check}\n"
    c = "cluster: c\nbootstrap: 127.0.0.1:9092\n"
    config = write_config(tmp_path / "config", {"pipelines/web": text, "clusters/c": c})
    return [str(fault).split(": ", 1)[1] for fault in load_all(config).faults]


@pytest.mark.parametrize(
    ("check", "field", "names"),
    [
        ("{check: total_bytes}", "", ["min", "max"]),
        ("{check: total_bytes, min: 2GB, max: 1GB}", "", ["min", "2GB", "max", "1GB"]),
        ("{check: total_bytes, min: 200}", ".min", ["200"]),
        ("{check: files_per, every: 1h, min: 4, max: 3}", "", ["min", "4", "max", "3"]),
        (
            "{check: files_per, every: 1m}",
            "",
            ["time", "source.path", "/%Y/%m/%d/%H/", "every: 1m"],
        ),
        (
            "{check: files_per, every: 1h, time: '%Y%m%d'}",
            "",
            ["every: 1h", "time", "%Y%m%d", "1d"],
        ),
        ("{check: files_per, every: 1h, time: '%Y-%m %H'}", ".time", ["%Y-%m %H"]),
        ("{check: files_per, every: 1h, time: '%Y%m%d%M'}", ".time", ["%Y%m%d%M"]),
        ("{check: files_per, every: 1h, time: '%Y%m%d%I'}", ".time", ["%Y%m%d%I"]),
        ("{check: files_per, every: 1h, time: '%Y%Y%m%d%H'}", ".time", ["%Y%Y%m%d%H"]),
        ("{check: files_per, every: 0s}", ".every", ["0s"]),
        ("{check: size_vs_history, min_runs: 11}", "", ["min_runs", "11", "runs", "10"]),
        ("{check: size_vs_history, of: lines}", ".of", ["lines", "files"]),
        ("{check: size_vs_history, tolerance: 0}", ".tolerance", ["0"]),
        ("{check: matches, column: hots, regex: x}", ".column", ["hots", "host"]),
        ("{check: unique, column: key}", ".column", ["key"]),
        ("{check: in_window, column: at}", ".column", ["at"]),
        ("{check: max_gap, column: at, max: 10m}", ".column", ["at"]),
        ("{check: max_gap, column: host, max: 10m, on: sample}", ".on", ["sample"]),
        ("{check: matches, regex: ''}", ".regex", []),
        ("{check: matches, regex: x, colum: host}", ".colum", ["column"]),
        ("{check: allowed, column: host, values: []}", ".values", []),
        ("{check: allowed, column: host, values: [1, '1']}", ".values[1]", ["1"]),
        ("{check: line_length}", "", []),
        ("{check: line_length, p50: 2kB, max: 1kB}", "", ["p50", "2kB", "max", "1kB"]),
        ("{check: schema}", "", ["fields", "columns"]),
        ("{check: schema, fields: [a], columns: 3}", "", ["fields", "columns"]),
        ("{check: schema, columns: 3, optional: [a]}", "", ["optional", "columns"]),
        ("{check: schema, fields: [a], delimiter: ';'}", "", ["delimiter", "fields"]),
        ("{check: schema, fields: [a], optional: [a]}", "", ["a"]),
        ("{check: condition, name: 1x, sql: 'true'}", ".name", ["1x"]),
        ("{check: not_null, column: host, min_rate: 0}", ".min_rate", ["0"]),
        ("{check: json, min_rate: 1.01}", ".min_rate", ["1.01", "1"]),
        (
            "{check: route_rate, topics: {logs.wbe: {min: 0.1}}}",
            ".topics.logs.wbe",
            ["logs.wbe", "logs.web"],
        ),
        (
            "{check: route_rate, topics: {logs.web: {min: 0.2, max: 0.1}}}",
            ".topics.logs.web",
            ["min", "0.2", "max", "0.1"],
        ),
        ("{check: rows, on: smaple}", ".on", ["smaple", "sample"]),
    ],
)
def test_a_check_that_cannot_be_meant_is_refused_with_its_field(tmp_path, check, field, names):
    (found,) = faults_of(tmp_path, check)
    assert found.startswith(f"gates.source[0]{field}: "), found
    assert set(names) <= names_in(found)


def test_files_per_needs_a_time_where_the_source_path_names_none(tmp_path):
    check = "{check: files_per, every: 1h}"
    assert faults_of(tmp_path, check) == []
    for source in ("s3a://logs/web/", "s3a://logs/{window_start:%Y}/*/{window_start:%m%d%H}/"):
        (found,) = faults_of(tmp_path, check, source)
        assert found.startswith(
            "gates.source[0]: `time` is needed: `source.path` does not show where"
        )
    assert (
        faults_of(tmp_path, "{check: files_per, every: 1h, time: '%Y%m%d%H'}", "s3a://logs/web/")
        == []
    )


def test_topics_made_of_columns_can_be_named_and_one_at_least_must_be_known(tmp_path):
    routes = "routes: [{topic: 'logs.{host}', matching: 'logs[.]web[0-9]'}]\n"
    assert (
        faults_of(tmp_path, "{check: route_rate, topics: {logs.web1: {min: 0.1}}}", more=routes)
        == []
    )
    (found,) = faults_of(tmp_path, "{check: route_rate}", more=routes)
    assert found.startswith("gates.source[0]: there is no topic to check")
    shares = "{check: route_rate, topics: {logs.a: {min: 0.6}, logs.b: {min: 0.6}}}"
    (found,) = faults_of(tmp_path, shares, more=routes)
    assert "the smallest shares add up to 1.2, more than 1" in found


def test_a_check_that_quarantines_needs_a_quarantine(tmp_path):
    check = "{check: not_null, column: host, severity: quarantine}"
    (found,) = faults_of(tmp_path, check)
    assert found.startswith(
        "gates.source[0].severity: `quarantine` needs a topic to go to: add `quarantine: {topic: "
        "…}`"
    )
    assert faults_of(tmp_path, check, more="topic: logs.web\nquarantine: {topic: bad.web}\n") == []


def test_a_suite_is_held_against_the_columns(tmp_path):
    check = "{check: expectations, suite: expectations/web.json}"
    (found,) = faults_of(tmp_path, check)
    assert "expectations/web.json cannot be read" in found
    file = next(tmp_path.rglob("pipelines")).parent / "expectations" / "web.json"
    file.parent.mkdir()
    for text, says in (
        ("[]", "holds no suite"),
        ('{"expectations": []}', "would always pass"),
        ('{"expectations": [{"expectation_type": "x"}]}', "0.x: load and save it"),
        (
            '{"expectations": [{"type": "x", "kwargs": {"column": "hots"}}]}',
            "expectations[0] (x): no column 'hots'; did you mean 'host'?",
        ),
    ):
        file.write_text(text)
        (found,) = faults_of(tmp_path, check)
        assert says in found, found
    file.write_text('{"expectations": [{"type": "x", "kwargs": {"column": "host"}}]}')
    assert faults_of(tmp_path, check) == []
    (found,) = faults_of(tmp_path, "{check: expectations, suite: ../web.json}")
    assert "suite" in found


WRITTEN = {
    "expectations": {"suite": "expectations/web.json"},
    "files": {},
    "total_bytes": {"min": "1B"},
    "freshness": {"max_age": "1h"},
    "files_per": {"every": "1h", "time": "%Y%m%d%H"},
    "not_null": {"column": "host"},
    "matches": {"regex": "x"},
    "allowed": {"column": "host", "values": ["x"]},
    "in_window": {"column": "host"},
    "max_gap": {"column": "host", "max": "10m"},
    "line_length": {"max": "1kB"},
    "schema": {"columns": 3},
    "condition": {"name": "x", "sql": "true"},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_only_checks_of_single_records_can_quarantine(tmp_path, kind):
    name = get_args(kind.model_fields["check"].annotation)[0]
    fields = {"check": name, **WRITTEN.get(name, {})}
    assert kind.model_validate(fields).title.startswith(name)
    if issubclass(kind, RecordCheck):
        assert kind.model_validate(fields | {"severity": "quarantine"}).condition()
    else:
        with pytest.raises(
            ValueError, match=r"`quarantine` takes single records out; .*: use `block` or `warn`"
        ):
            kind.model_validate(fields | {"severity": "quarantine"})


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("/%Y/%m/%d/%H/", "s3a://logs/2026/11/01/06/a.log", "2026-11-01T06:00"),
        ("web-%Y%m%dT%H%M", "/logs/2026/web-20261101T0615.log.gz", "2026-11-01T06:15"),
        ("%Y%m%d%H", "/logs/2025010100/2026110106.log", "2026-11-01T06:00"),
        ("%Y-%j", "/logs/2026-305/a", "2026-11-01T00:00"),
        ("/day=%Y-%-m-%-d/hour=%-H/", "/logs/day=2026-1-9/hour=6/a", "2026-01-09T06:00"),
        ("%Y%m%d", "/logs/2026110106.log", None),
        ("%Y%m%d%H", "/logs/2026130106.log", None),
        ("a.%Y%m%d", "/logs/ax20261101", None),
    ],
)
def test_a_paths_time_is_the_last_that_fits(pattern, path, found):
    at = PathTime(pattern).find(path)
    assert (at and f"{at:%Y-%m-%dT%H:%M}") == found
    assert at is None or at.tzinfo is dt.UTC


def test_docs_and_corruptions_name_every_check_of_the_source_gate_and_no_other():
    root = Path(__file__).resolve().parents[2]
    gates = (root / "docs" / "reference" / "gates.md").read_text()
    of_gates = (
        gates.partition("## Checks of the listing")[2].partition("## ")[0],
        gates.partition("## Checks of lines")[2].partition("## ")[0],
    )
    assert sorted(
        name for table in of_gates for name in re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    ) == sorted(NAMES)
    caught = re.findall(
        r"^\| .+ \| `(\w+)\S*` \|$", gates.partition("## What catches what")[2], re.MULTILINE
    )
    assert set(caught) == set(NAMES), (
        "each check catches a corruption that tests/integration/test_corruptions.py plants"
    )


@pytest.mark.parametrize(
    ("check", "on"),
    [
        ({}, "sample"),
        ({"min": 1}, "sample"),
        ({"min": 100_000}, "full"),
        ({"max": 5}, "full"),
        ({"min": 100_000, "on": "sample"}, "sample"),
    ],
)
def test_a_bound_on_the_number_of_rows_is_held_against_all_files(check, on):
    assert RowsCheck.model_validate({"check": "rows", **check}).on == on


@pytest.mark.parametrize(
    ("check", "faults"),
    [("{check: files}", 1), ("{check: files, min: 24}", 0), ("{check: files, max: 9}", 0)],
)
def test_a_gate_for_an_empty_window_contradicts_a_source_that_may_be_empty(tmp_path, check, faults):
    assert faults_of(tmp_path, check) == []
    found = faults_of(tmp_path, check, source="{path: logs/, when_empty: succeed}")
    assert [fault.partition(": ")[0] for fault in found] == ["gates.source[0].min"] * faults


def test_only_checks_that_are_written_contradict_a_source_that_may_be_empty(tmp_path):
    text = "pipeline: web\nsource: {path: logs/, when_empty: succeed}\ntopic: t\nclusters: [c]\n"
    text += "gates: {delivery: [{check: checksum}]}\n"
    c = "cluster: c\nbootstrap: 127.0.0.1:9092\n"
    config = write_config(tmp_path / "config", {"pipelines/web": text, "clusters/c": c})
    assert not load_all(config).faults
