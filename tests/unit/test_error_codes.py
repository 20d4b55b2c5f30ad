"""Codes of errors: each error has one, each is used, and none ever changes its meaning."""

import ast
import pickle
import re
from pathlib import Path

import pytest

import shipper.shipments.index
from shipper.error_codes import code_of, with_code, without_code
from shipper.errors import (
    ClusterError,
    ClusterRefuses,
    ConfigError,
    LedgerDamaged,
    LedgerGone,
    RecordUnshippable,
    ShipperError,
    SourceError,
    SourceUnreachable,
    StepResultError,
    Superseded,
    TopicMissing,
    UsageError,
    error_named,
)
from shipper.report.message import one_sentence

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("shipper", "spark_jobs", "shipper_airflow", "tools/shipper_tools")
#: Every code that was ever given. A code is added at the end, and none is given again: people
#: search for it, and alerts name it.
_GIVEN = """
001 002 003 004 005 006 007 008
101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118
201 202 203 204 205 206 207 208 209
221 222 223 224
301 302 303 304 305 306 307 308 309 310 311 312 313 314
401 402 403 404 405 406 407 408 409 410 411 412
501 502 503 504 505 506 507 508 509
601 602 603 604 605 606 607 608 609
701 702
801 802 803 804 805 806 807 808 809 810
901 902 903
951 952 953
"""
#: Codes whose errors can no longer happen.
_RETIRED = "006 111 805"


def _kinds(error=ShipperError):
    yield error
    for kind in error.__subclasses__():
        yield from _kinds(kind)


def error_sections():
    """Return code → section of the page of errors."""
    page = (_ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^### ", page, flags=re.MULTILINE)
    return {text[:8]: text[8:] for text in sections}


CODES = error_sections()
_NAMES = {kind.__name__ for kind in _kinds()} | {shipper.shipments.index.IndexUnusable.__name__}


def _sources():
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            yield path, path.read_text(encoding="utf-8")


def test_codes_are_those_that_were_given():
    given = [number for number in _GIVEN.split() if number not in _RETIRED.split()]
    assert list(CODES) == [f"SHIP-{number}" for number in given]


def test_each_code_has_a_title_a_meaning_for_the_data_and_a_remedy():
    parts = r"\n\n\*\*[A-Z`].*\.\*\*\n\n- \*Data\*: .*\.\n- \*What to do\*: .*\.\n"
    for code, text in CODES.items():
        assert re.match(parts, text, re.DOTALL), f"{code}: {text}"


def test_each_class_of_errors_has_a_code_of_its_own():
    own = [
        kind.__dict__.get("code")
        for kind in _kinds()
        if kind.__module__.split(".")[0] in _PACKAGES and kind is not ShipperError
    ]
    assert set(own) <= CODES.keys()
    assert len(own) == len(set(own)), "two classes with one remedy"


def test_each_raise_with_a_code_names_one_of_the_table():
    named = [
        (path.name, keyword.value.value)
        for path, source in _sources()
        if "code=" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _NAMES
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    ]
    assert len(named) > 100
    assert [(file, code) for file, code in named if code not in CODES] == []


def test_each_code_is_used():
    used = {
        code
        for path, source in _sources()
        for code in re.findall(r"(?<!`)SHIP-\d{3}", source)  # not the example in a docstring
    }
    assert CODES.keys() - used == set()
    assert used - CODES.keys() == set()


def test_a_message_ends_with_the_code():
    error = UsageError("Nothing was sent.", code="SHIP-102")
    assert (error.code, str(error)) == ("SHIP-102", "Nothing was sent. [SHIP-102]")
    assert ConfigError("x").code == "SHIP-201"


@pytest.mark.parametrize(
    "error",
    [TopicMissing("x"), UsageError("x", code="SHIP-109"), LedgerDamaged.at("web", 1, 2, "x")],
)
def test_a_code_survives_pickling_and_a_way_as_text(error):
    assert pickle.loads(pickle.dumps(error)).code == error.code
    back = error_named(type(error).__name__, error.message)
    assert (back.code, back.message) == (error.code, error.message)


def test_an_error_keeps_the_code_of_its_cause():
    cause = UsageError("x", code="SHIP-109")
    assert ClusterError(f"step plan failed: {cause}").message == "step plan failed: x [SHIP-109]"


@pytest.mark.parametrize("text", ["", "x", "x [SHIP-1]", "[SHIP-101] x"])
def test_a_text_without_a_code_at_its_end_has_none(text):
    assert code_of(text) is None
    assert without_code(text) == text
    assert with_code(text, None) == text


def test_one_sentence_of_an_error_keeps_its_code():
    assert one_sentence("It failed. Run again. [SHIP-601]") == "It failed. [SHIP-601]"


@pytest.mark.parametrize(
    ("error", "fails_again"),
    [
        (RecordUnshippable("no"), True),
        (ClusterRefuses("no"), True),
        (SourceError("no"), True),
        (SourceUnreachable("no"), False),
        (StepResultError("503 Slow Down", code="SHIP-005"), False),
        (Superseded("taken over"), False),
        (ClusterError("away"), False),
        (LedgerGone.meanwhile("c", "t"), False),
    ],
)
def test_only_what_is_wrong_with_the_data_or_the_cluster_keeps_later_runs_from_a_window(
    error, fails_again
):
    """C6: a blip of the results' folder, or a takeover, says nothing about the next run."""
    assert error.fails_again == fails_again
    assert not (error.retriable and error.fails_again)
