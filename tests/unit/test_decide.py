"""The decision about each file: a row of the table for each case, by its code."""

from dataclasses import replace
from pathlib import Path

import pytest

from shipper.driver.decide import RULES, Original, Policy, SourceFile, decide, decisions_page
from shipper.errors import SourceError
from shipper.ledger.fold import Chunks, Invalidated
from shipper.ledger.heads import HEAD_BYTES
from shipper.ledger.records import Alias, ChunkKey
from shipper.ledger.sums import ByteSum
from shipper.report.plan_result import Beginning
from shipper.types import FileId, SplitId
from tests.samples.decisions import LookedInto, decided
from tests.samples.ledger import chunk_value

HEAD, SHORT, OTHER = f"{HEAD_BYTES}:{'a' * 16}", f"20:{'b' * 16}", f"{HEAD_BYTES}:{'c' * 16}"
CONTENT = ByteSum(2000, 1, 2)
OLD, NEW = FileId("/logs/app.log", 2000, 5), FileId("/logs/app.log.1", 2000, 5)
VALUE = chunk_value(
    last=20, end=True, records=20, digest="d", generation=3, splits=1, read=2000, sum=str(CONTENT),
    head=HEAD,
)  # fmt: skip


def ledger(*files, **fields):
    found = Chunks("web")
    for file in files:
        value = replace(VALUE, **{"read": file.size_bytes, **fields})
        found.add(ChunkKey(SplitId(file, 0), 0, "t"), value)
    return found


def beginning(content, **fields):
    return Beginning(length=content.length, sum=str(content), **fields)


def like(*originals, content=CONTENT, **more):
    """A file that begins like ``originals``, and holds what they held."""
    fields = {"ends_line": True, "whole": True, **more}
    found = [] if content is None else [beginning(content, **fields)]
    return LookedInto(HEAD, tuple(Original(each, content) for each in originals), tuple(found))


GROWN = FileId("/logs/app.log", 2500, 9)
GROWN_AND_RENAMED = FileId("/logs/app.log.1", 2500, 9)
EMPTY = FileId("/logs/app.log", 0, 9)
BEGINS_SO = LookedInto(HEAD)
OTHERWISE = LookedInto(OTHER)
KNOWN_IN_PART = ledger(OLD, end=False, sum=None, read=None)

CONTINUE = {"on_replaced": "continue"}
CASES = [
    ("reship", OLD, ledger(OLD), None, {"reship_below": 4}),
    ("reship", NEW, Chunks("web"), None, {"reship_below": 4}),
    ("complete", OLD, ledger(OLD), None, {"reship_below": 3}),
    ("complete", OLD, ledger(OLD), None, {"reship_below": 4, "reshipped": {OLD}}),
    ("misread", OLD, ledger(OLD, read=7), None, {}),
    ("older", OLD, ledger(OLD, digest="other"), None, {}),
    ("complete", OLD, ledger(OLD), None, {}),
    ("changed", OLD, ledger(OLD, end=False, digest="other"), None, {}),
    ("changed", OLD, ledger(OLD, end=False, splits=2), None, {}),
    ("changed", OLD, ledger(OLD, end=False), None, {"routes_to": "other".__eq__}),
    ("complete", OLD, ledger(OLD), None, {"routes_to": "other".__eq__}),
    ("rest", OLD, ledger(OLD, end=False, reasons={"check": 20}), None, {"routes_to": "u".__eq__}),
    ("other-spark", OLD, ledger(OLD, end=False, spark="4.1"), None, {"spark": "4.2"}),
    ("rest", OLD, ledger(OLD, end=False, spark="4.1"), None, {}),
    ("rest", OLD, KNOWN_IN_PART, None, {}),
    ("same", NEW, ledger(OLD), like(OLD), {}),
    ("same", NEW, ledger(OLD, digest="other"), like(OLD), {}),
    ("torn", GROWN, ledger(OLD), like(OLD, whole=False, ends_line=False), CONTINUE),
    ("grown", GROWN, ledger(OLD), like(OLD, whole=False), {"on_replaced": "continue"}),
    ("grown", GROWN_AND_RENAMED, ledger(OLD), like(OLD, whole=False), {"on_replaced": "continue"}),
    ("grown-fail", GROWN, ledger(OLD), like(OLD, whole=False), {}),
    ("grown-skip", GROWN, ledger(OLD), like(OLD, whole=False), {"on_replaced": "skip"}),
    ("grown-reship", GROWN, ledger(OLD), like(OLD, whole=False), {"on_replaced": "reship"}),
    ("grown-elsewhere", GROWN_AND_RENAMED, ledger(OLD), like(OLD, whole=False), {}),
    ("begun-elsewhere", NEW, KNOWN_IN_PART, like(OLD, content=None), {}),
    ("not-looked", GROWN, ledger(OLD), None, {}),
    ("replaced-fail", GROWN, ledger(OLD), OTHERWISE, {}),
    ("replaced-skip", GROWN, ledger(OLD), OTHERWISE, {"on_replaced": "skip"}),
    ("replaced-reship", GROWN, ledger(OLD), OTHERWISE, {"on_replaced": "reship"}),
    ("empty", EMPTY, Chunks("web"), None, {}),
    ("empty", EMPTY, ledger(OLD), None, {"on_replaced": "continue"}),
    ("alike", GROWN, ledger(OLD), BEGINS_SO, {"on_replaced": "continue"}),
    ("alike", GROWN, ledger(OLD), LookedInto(SHORT), {"on_replaced": "continue"}),
    ("alike", GROWN, ledger(OLD, head=None), OTHERWISE, {"on_replaced": "continue"}),
    ("successor", GROWN, ledger(OLD), OTHERWISE, {"on_replaced": "continue"}),
    ("successor", GROWN, ledger(OLD, head=SHORT), OTHERWISE, {"on_replaced": "continue"}),
    ("new", NEW, ledger(OLD), BEGINS_SO, {}),
    ("new", NEW, Chunks("web"), BEGINS_SO, {}),
]  # fmt: skip


def rule_of(file, chunks, looked, policy):
    """The code of the rule, also of one that stops the run."""
    about = {file: looked} if looked else {}
    try:
        [found] = decided([file], chunks, about, late={file}, **policy).each
    except SourceError as error:  # pragma: no cover - late files stop nothing
        return str(error)
    return found.rule


@pytest.mark.parametrize(("code", "file", "chunks", "looked", "policy"), CASES)
def test_the_first_rule_that_holds_decides(code, file, chunks, looked, policy):
    if looked is None and code == "not-looked":
        for nobody in ({}, None):
            [found] = decide([SourceFile(file, 1)], chunks, nobody, Policy("d", **policy)).each
            assert found.rule == code
        [found] = decide([SourceFile(EMPTY, 1)], chunks, None, Policy("d", **policy)).each
        assert found.rule == code, "what lay there may lie elsewhere"
        return
    assert rule_of(file, chunks, looked, policy) == code


def test_each_rule_has_a_case():
    assert [rule.code for rule in RULES] == list(dict.fromkeys(rule.code for rule in RULES))
    assert {rule.code for rule in RULES} == {code for code, *_ in CASES}


@pytest.mark.parametrize(
    ("file", "chunks", "looked", "policy", "code"),
    [
        (OLD, ledger(OLD, read=7), None, {}, "SHIP-307"),
        (OLD, ledger(OLD, end=False, digest="other"), None, {}, "SHIP-309"),
        (OLD, ledger(OLD, end=False, spark="4.1"), None, {"spark": "4.2"}, "SHIP-310"),
        (GROWN, ledger(OLD), like(OLD, whole=False), {}, "SHIP-306"),
        (GROWN, ledger(OLD), OTHERWISE, {}, "SHIP-305"),
    ],
)
def test_what_stops_a_run_is_told_and_a_late_file_stops_none(file, chunks, looked, policy, code):
    about = {file: looked} if looked else {}
    with pytest.raises(SourceError) as stopped:
        decided([file], chunks, about, **policy)
    assert stopped.value.code == code
    found = decided([file], chunks, about, late={file}, **policy)
    assert (found.left, list(found.refused)) == ([], [file])
    assert found.refused[file]


def test_an_original_has_one_heir_and_another_file_with_its_content_is_shipped():
    """C3c: a marker that three files repeat is not three times one that is gone."""
    other, third = NEW._replace(path="/logs/b", modified_ms=8), NEW._replace(path="/logs/c")
    found = decided([other, NEW, third], ledger(OLD), dict.fromkeys((other, NEW, third), like(OLD)))
    assert [one.rule for one in found.each] == ["new", "same", "new"]
    assert [one.file for one in found.matched] == [NEW]


def test_another_content_is_another_file():
    content = beginning(ByteSum(2000, 1, 9), ends_line=True, whole=True)
    other = like(OLD)._replace(beginnings=(content,))
    assert rule_of(NEW, ledger(OLD), other, {}) == "new"


def test_a_header_says_nothing_of_a_longer_file_at_another_path():
    """C3a, C3b."""
    header = ByteSum(20, 3, 4)
    short = FileId("/logs/06.csv", 20, 5)
    chunks = ledger(short, sum=str(header), head=SHORT)
    looked = like(short, content=header, whole=False)
    later, own = FileId("/logs/07.csv", 900, 9), FileId("/logs/06.csv", 900, 9)
    for policy in ("fail", "continue"):
        assert rule_of(later, chunks, looked, {"on_replaced": policy}) == "new"
    assert rule_of(own, chunks, looked, {"on_replaced": "continue"}) == "grown"
    for name in ("06.csv.1", "06.csv-20261127", "06.csv.2.gz"):
        rotated = later._replace(path=f"/logs/{name}")
        assert rule_of(rotated, chunks, looked, {"on_replaced": "continue"}) == "grown", name
    assert rule_of(later, chunks, like(short, content=header), {}) == "same"


def test_a_header_that_was_renamed_and_begins_the_next_file_is_at_its_new_path():
    """A log without rows is rotated: the next one has not grown out of it."""
    header = ByteSum(20, 3, 4)
    short = FileId("/logs/a.csv", 20, 5)
    chunks = ledger(short, sum=str(header), head=SHORT)
    following, rotated = FileId("/logs/a.csv", 900, 9), short._replace(path="/logs/a.csv.1")
    looked = {
        following: like(short, content=header, whole=False),
        rotated: like(short, content=header),
    }
    for policy in ("fail", "continue"):
        found = decided([following, rotated], chunks, looked, on_replaced=policy)
        assert [one.rule for one in found.each] == ["new", "same"], policy
    copy = rotated._replace(modified_ms=9)
    found = decided(
        [following, copy], chunks, {**looked, copy: looked[rotated]}, on_replaced="continue"
    )
    assert [one.rule for one in found.each] == ["grown", "new"], "a copy has a time of its own"


def test_a_path_whose_file_is_elsewhere_by_now_takes_any_other():
    successor = FileId("/logs/app.log", 30, 9)
    both = {NEW: like(OLD), successor: OTHERWISE}
    assert [one.rule for one in decided([NEW, successor], ledger(OLD), both).each] == [
        "same",
        "new",
    ]
    chunks = ledger(OLD)
    chunks.succeeded.add(OLD)
    assert decided([successor], chunks, {successor: OTHERWISE}).left == [successor]


def test_a_file_that_has_grown_is_shipped_from_where_the_other_ended():
    [found] = decided(
        [GROWN], ledger(OLD), {GROWN: like(OLD, whole=False)}, on_replaced="continue"
    ).each
    assert (found.begins, found.begun, found.records) == (2000, False, 0)
    chunks = ledger(OLD)
    alias = Alias(
        *OLD, whole=False, sum=str(CONTENT), read=2000, generation=7, run_id="r", window="w",
        records={"t": 20}, topic_ids={}, head=HEAD,
    )  # fmt: skip
    chunks.add_alias(GROWN, alias)
    [found] = decided([GROWN], chunks).each
    assert (found.rule, found.begins) == ("rest", 2000)
    rest = replace(VALUE, last=5, records=5, read=500, sum="500:0000000300000004")
    chunks.add(ChunkKey(SplitId(GROWN, 2000), 0, "t"), rest)
    [found] = decided([GROWN], chunks).each
    assert (found.rule, found.records) == ("complete", 5)
    assert chunks.content(GROWN) == CONTENT.followed_by(ByteSum(500, 3, 4))
    again = decided([GROWN], chunks, reship_below=99)
    assert (again.each[0].rule, again.each[0].begins, set(again.void)) == (
        "reship",
        0,
        {OLD, GROWN},
    )
    chunks.invalidate(dict.fromkeys((OLD, GROWN), Invalidated(9, frozenset("r"))))
    assert not chunks.knows(GROWN)


def test_an_object_that_was_overwritten_is_not_what_the_ledger_knows():
    chunks = ledger(OLD, etag="one")
    with pytest.raises(SourceError) as stopped:
        decided([OLD], chunks, etags={OLD: "two"})
    assert stopped.value.code == "SHIP-305"
    assert decided([OLD], chunks, etags={OLD: "two"}, on_replaced="reship").void == [OLD]
    assert decided([OLD], chunks, etags={OLD: "one"}).complete == [OLD]
    found = decided([OLD], chunks, {OLD: OTHERWISE}, etags={OLD: "two"}, **CONTINUE)
    assert ([one.rule for one in found.each], found.void) == (["successor"], [OLD])


def test_the_page_is_up_to_date():
    page = Path(__file__).resolve().parents[2] / "docs/understand/files.md"
    assert page.read_text(encoding="utf-8") == decisions_page(), (
        "the table has changed: python -m shipper.driver.decide > docs/understand/files.md"
    )
