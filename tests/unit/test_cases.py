"""Files of `shipper test`: what is refused, by file, line and column; and the comparison."""

import json
from pathlib import Path

import pytest
from faults import names_in

from shipper.config.cases import load_cases
from shipper.errors import ConfigError
from shipper.report.preview_result import PreviewedLine, ReadSample
from shipper.report.tested import compare

PIPELINE = """\
pipeline: web
source: s3a://logs/web/
topic: logs.web
clusters: [local]
records: {drop: {health: "value = '/healthz'"}}
"""
QUARANTINE = "quarantine: {topic: odd.web}\n"


@pytest.fixture
def config(config, monkeypatch):
    monkeypatch.chdir(config.parent)
    (config / "tests").mkdir()
    (config / "pipelines" / "web.yaml").write_text(PIPELINE)
    return Path("config")


def write(config, data):
    text = data if isinstance(data, str) else json.dumps(data)
    (config / "tests" / "web.yaml").write_text(text)


def one_case(**case):
    return {"cases": {"a": {"lines": "x\n", "expect": [{}], **case}}}


def load(config, **case):
    write(config, one_case(**case))
    return load_cases(config, "web")


#: What is wrong → the case, the path of the fault, the text that stands at its place, and what the
#: fault names.
FAULTS = {
    "unknown key": ("lines: x, expect: [{topik: a}]", "expect[0].topik", "topik", {"topic"}),
    "text wanted": ("lines: x, expect: [{key: 12}]", "expect[0].key", "12", {"12"}),
    "a number": ("lines: x, expect: [{timestamp: 12}]", "expect[0].timestamp", "12", {"12"}),
    "two outcomes": (
        "lines: x, expect: [{dropped: health, fails: y}]",
        "expect[0].fails",
        "y",
        {"dropped"},
    ),
    "a topic of what is dropped": (
        "lines: x, expect: [{dropped: health, topic: y}]",
        "expect[0].topic",
        "y",
        {"dropped", "topic"},
    ),
    "a key of what fails": (
        "lines: x, expect: [{fails: odd, key: zz}]",
        "expect[0].key",
        "zz",
        {"fails", "key"},
    ),
    "with and without": (
        "lines: x, expect: [{key: y, without: [key]}]",
        "expect[0].without",
        "without",
        {"key"},
    ),
    "no such rule": (
        "lines: x, expect: [{dropped: healt}]",
        "expect[0].dropped",
        "healt",
        {"healt", "health", "records.drop"},
    ),
    "no quarantine": (
        "lines: x, expect: [{quarantined: odd}]",
        "expect[0].quarantined",
        "odd",
        {"quarantine", "fails"},
    ),
    "no such cluster": ("lines: x, cluster: far, expect: []", "cluster", "far", {"far"}),
    "nothing expected": ("lines: x, path: /x", "expect", "a:", set()),
    "two samples": ("lines: x, file: y, expect: []", "", "a:", {"lines", "file"}),
    "no sample": ("expect: []", "", "a:", {"lines", "file"}),
    "no lines": ("lines: '', expect: []", "lines", "''", {""}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_with_its_place(name, config):
    written, path, at, named = FAULTS[name]
    text = f"cases:\n  a: {{{written}}}\n"
    write(config, text)
    with pytest.raises(ConfigError) as refused:
        load_cases(config, "web")
    (said,) = refused.value.message.splitlines()
    column = text.splitlines()[1].index(at) + 1
    where = f"config/tests/web.yaml:2:{column}: {'.'.join(filter(None, ('cases.a', path)))}: "
    assert said.startswith(where)
    assert named <= names_in(said.removeprefix(where))


@pytest.mark.parametrize("file", ["/etc/passwd", "../web.yaml", "a/../../x", "file:///etc/passwd"])
def test_a_test_reads_no_file_that_lies_elsewhere(file, config):
    write(config, {"cases": {"a": {"file": file, "expect": []}}})
    with pytest.raises(ConfigError, match=r"^config/tests/web\.yaml:1:\d+: cases\.a\.file: "):
        load_cases(config, "web")


def test_nor_by_a_link(config, tmp_path):
    (tmp_path / "secret").write_text("x\n")
    (config / "tests" / "a.log").symlink_to(tmp_path / "secret")
    write(config, {"cases": {"a": {"file": "a.log", "expect": []}}})
    with pytest.raises(ConfigError, match=r"cases\.a\.file: "):
        load_cases(config, "web")
    (config / "tests" / "a.log").unlink()
    with pytest.raises(ConfigError, match=r"cases\.a\.file: .*tests/a\.log"):
        load_cases(config, "web")


# The comparison


def line(**fields):
    defaults = {"file": "f", "record": 1, "line": "x", "outcome": "shipped", "topic": "logs.web"}
    return PreviewedLine.model_validate(defaults | {"value": "x"} | fields)


DROPPED = line(outcome="dropped", why="health", topic=None, value=None)


def result(config, expect, *lines):
    return compare(load(config, expect=expect), "a", ReadSample(lines=list(lines)))


def fields(config, expect, found):
    compared = result(config, [expect], found)
    assert compared.passed is not compared.differences
    return [(one.field, one.expected, one.found) for one in compared.differences]


@pytest.mark.parametrize(
    ("expect", "found", "differs"),
    [
        ({}, line(key="k", headers={"a": "b"}), []),
        ({"topic": "logs.web", "value": "x"}, line(), []),
        ({"topic": "a", "value": "y"}, line(), [("topic", "a", "logs.web"), ("value", "y", "x")]),
        ({"key": "k"}, line(), [("key", "k", None)]),
        ({"key": ""}, line(key=""), []),
        ({"without": ["key", "value"]}, line(value=None), []),
        ({"without": ["key"]}, line(key="k"), [("key", None, "k")]),
        ({"headers": {}}, line(headers={"a": "b"}), [("headers", "none", "a=b")]),
        ({"headers": {"b": "1", "a": "2"}}, line(headers={"a": "2", "b": "1"}), []),
        ({"timestamp": "2026-11-01T07:00:00.250+01:00"}, line(timestamp_ms=1793512800250), []),
        (
            {"timestamp": "2026-11-01T06:00"},
            line(timestamp_ms=1793512800250),
            [("timestamp", "2026-11-01T06:00:00Z", "2026-11-01T06:00:00.250Z")],
        ),
        ({}, DROPPED, [("outcome", "shipped", "dropped: health")]),
        ({"dropped": "health"}, DROPPED, []),
        ({"dropped": "health"}, line(), [("outcome", "dropped: health", "shipped to logs.web")]),
        ({"fails": "unparseable"}, line(outcome="fails", why="unparseable"), []),
        (
            {"fails": "too_large"},
            line(outcome="fails", why="unparseable"),
            [("outcome", "fails: too_large", "fails: unparseable")],
        ),
        ({"fails": "unencodable"}, line(outcome="fails", why="unencodable", fault="field a"), []),
    ],
)
def test_only_what_is_written_is_compared(expect, found, differs, config):
    assert fields(config, expect, found) == differs


def test_each_record_needs_an_expectation_and_each_expectation_a_record(config):
    more = result(config, [{}], line(), DROPPED)
    assert [(one.record, one.field, one.expected, one.found) for one in more.differences] == [
        (2, "record", None, "dropped: health")
    ]
    fewer = result(config, [{}, {"topic": "logs.web"}], line())
    assert [(one.record, one.line, one.expected, one.found) for one in fewer.differences] == [
        (2, None, "shipped to logs.web", None)
    ]
    assert not more.passed
    assert not fewer.passed


def test_a_difference_names_the_place_of_what_was_expected(config):
    expect = "      - {topic: t}\n      - {key: a,\n         value: y}\n"
    write(config, f"cases:\n  a:\n    lines: x\n    expect:\n{expect}")
    found = compare(load_cases(config, "web"), "a", ReadSample(lines=[line(), line()]))
    assert [one.place for one in found.differences] == [
        "config/tests/web.yaml:5:17",
        "config/tests/web.yaml:6:15",
        "config/tests/web.yaml:7:17",
    ]
    assert found.place == "config/tests/web.yaml:2:3"


def test_what_goes_to_quarantine_is_compared_by_its_reason_and_its_value(config):
    (config / "pipelines" / "web.yaml").write_text(PIPELINE + QUARANTINE)
    odd = line(outcome="quarantined", why="unparseable", topic="odd.web", value="[email]")
    assert fields(config, {"quarantined": "unparseable", "value": "[email]"}, odd) == []
    assert fields(config, {"quarantined": "unparseable", "value": "x"}, odd) == [
        ("value", "x", "[email]")
    ]
    write(config, one_case(expect=[{"fails": "unparseable"}]))
    with pytest.raises(ConfigError, match=r"expect\[0\]\.fails: .*`quarantined`"):
        load_cases(config, "web")


@pytest.mark.parametrize(("pipeline", "code"), [("web", "SHIP-113"), ("no", "SHIP-202")])
def test_no_test_is_asked_for_of_a_pipeline_that_is_not_there(pipeline, code, config):
    with pytest.raises(ConfigError) as refused:
        load_cases(config, pipeline)
    assert refused.value.code == code
