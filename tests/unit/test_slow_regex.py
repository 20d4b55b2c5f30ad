"""Regular expressions that a log line can make slow are found before one does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from shipper.cli.lint import patterns_in, slow
from shipper.cli.main import validate


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r'^(?<client>\S+) \S+ "(?<method>[A-Z]+) (?<url>\S+)[^"]*" (?<status>\d{3})', "in group 'url' and one behind it"),
        (r"^(?<a>.*),(?<b>.*)x", "length squared"),
        (r"^(?<a>.*?) - (?<b>.*?) \[", "length squared"),
        (r"^(?<a>\d+)(?<b>\w*)-", "length squared"),
        (r"^(?<a>(?:x+)+)y", "for ever"),
        (r"^(?<a>(?:\S+\s*)+)$", "for ever"),
        (r"^(?<a>(?:[a-z]|\d)+)", "overflows"),
        (r"(?<n>\d+) ms", "begin it with \\^"),
    ],
)
def test_what_a_line_can_make_slow_is_found(pattern: str, why: str) -> None:
    found = slow(pattern)
    assert any(why.replace("\\", "") in sentence for sentence in found), found


@pytest.mark.parametrize(
    "pattern",
    [
        r'^(?<client>\S+) \S+ \S+ \[(?<at>[^\]]+)\] "\S+ (?<url>[^\s"]++)[^"]*+" (?<code>\d{3}) ',
        r"^(?<a>[^ ]+) (?<b>.*) (?<c>\d+)$",
        r"^(?<a>\S+)\s+(?<b>\S+)\s+(?<c>.*)$",
        r"^(?<a>.*),(?<b>.*)",
        r"^(?<a>(?:[a-z]+,)*)x",
        r"^(?<a>(?>x+)+)y",
        r"(?<status>\d{3})",
        r"^(?<a>\p{Alpha}+)+",  # Python cannot read it
        r"^(?<a>a|b)c",
        r"level=(?<level>\w+) ",
    ],
)
def test_what_is_read_once_is_not(pattern: str) -> None:
    assert slow(pattern) == []


@pytest.mark.parametrize(
    ("sql", "patterns"),
    [
        (r"value RLIKE '^(a+)+\\d'", [r"^(a+)+\d"]),
        (r"NOT value regexp r'^\S+ \''", [r"^\S+ " + "\\"]),
        (r"regexp_extract(value, 'host=([^/]+)', 1)", ["host=([^/]+)"]),
        (r"regexp_replace(upper(trim(value, 'x')), 'it''s|a,b', ', ')", ["it's|a,b"]),
        (r'coalesce(split(value, "\\s+")[0], \'no, (pattern\')', [r"\s+"]),
        (r"regexp_like(regexp_extract(value, '(x+)', 1), /* ', 'y */ 'b+') -- RLIKE 'c'", ["(x+)", "b+"]),
        (r"concat(value, 'x', 'y') = 'RLIKE' AND `rlike` = 'z'", []),
        (r"value LIKE '%a%'", []),
    ],
)
def test_patterns_are_found_in_sql(sql: str, patterns: list[str]) -> None:
    assert list(patterns_in(sql)) == patterns


def test_validate_warns_of_patterns_in_sql_and_of_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "local.yaml").write_text("cluster: local\nbootstrap: 127.0.0.1:9092\n")
    (tmp_path / "pipelines" / "web.yaml").write_text(
        r"""pipeline: web
source: /logs/
clusters: [local]
quarantine: {topic: bad}
records:
  columns: {service: "regexp_extract(value, '^(.*),(.*)x', 1)", fine: "regexp_extract(value, '^([a-z]+) ', 1)"}
  drop: {noise: "value RLIKE '^(?:x+)+y'"}
routes:
  - {when: "value RLIKE '^(.*)-(.*)-'", topic: errors}
  - {topic: "{service}", matching: "([a-z]+)+"}
gates:
  source:
    - {check: condition, name: c, sql: "value RLIKE '(a|b)+'"}
"""
    )
    with pytest.raises(typer.Exit):
        validate(config=tmp_path, sql=False, secrets=True, pipeline=None, as_json=False, runner_python=False)
    said = capsys.readouterr().err
    assert sorted(set(re.findall(r"web\.yaml:\d+:\d+: (\S+): ", said))) == [
        "gates.source[0].sql", "records.columns.service", "records.drop.noise", "routes[0].when", "routes[1].matching",
    ]  # fmt: skip


def test_validate_warns_where_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "local.yaml").write_text("cluster: local\nbootstrap: 127.0.0.1:9092\n")
    text = "pipeline: web\nsource: /logs/\ntopic: t\nclusters: [local]\nrecords:\n  parse: {regex: '^(?<a>.*),(?<b>.*)x'}\n"
    (tmp_path / "pipelines" / "web.yaml").write_text(text)
    with pytest.raises(typer.Exit) as ended:
        validate(config=tmp_path, sql=False, secrets=True, pipeline=None, as_json=False, runner_python=False)
    assert ended.value.exit_code == 0, "a warning is no fault"
    assert "web.yaml:6:18: records.parse.regex: the repetition in group 'a' and one behind it" in capsys.readouterr().err


def test_the_guides_own_example_is_read_once() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "guide.md").read_text()
    patterns = re.findall(r"parse: \{regex: '(.+)'\}", guide)
    assert patterns
    assert [slow(pattern) for pattern in patterns] == [[]] * len(patterns)
