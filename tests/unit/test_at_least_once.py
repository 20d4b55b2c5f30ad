"""Shipping without transactions: which record is which, and after which run some may come twice."""

import pytest

from shipper.ledger.codec import encode_attempt, encode_generation
from shipper.ledger.control import Control
from shipper.ledger.records import CONTROL, Attempt, AttemptKey, Generation, GenerationKey
from shipper.ledger.takeover import left_doubt
from shipper.types import LogRecord
from shipper.worker.chunk import NumberedHeaders


def control(*records):
    logged = [LogRecord(offset, 0, *record) for offset, record in enumerate(records)]
    return Control("web").feed(logged)


def begun(tasks=0):
    return encode_generation("web", GenerationKey("c", "x"), Generation("r", tasks, tasks, ()))


def attempt(number, *, ended=False):
    return encode_attempt("web", AttemptKey(0, 0, number, ended), Attempt())


@pytest.mark.parametrize(
    ("records", "doubt"),
    [
        ([], False),
        ([begun(), attempt(0), attempt(0, ended=True)], False),
        ([begun(), attempt(0)], True),
        ([begun(), attempt(0), attempt(1), attempt(1, ended=True)], False),
        ([begun()], True),  # it died before its tasks began, maybe after another one that died
        ([begun(tasks=2), attempt(0)], False),  # exactly once: its lanes are fenced
    ],
)
def test_a_run_whose_tasks_did_not_end_leaves_doubt(records, doubt):
    assert CONTROL == 0
    assert left_doubt(control(*records)) is doubt


def test_headers_name_a_record_however_its_split_is_cut_into_chunks():
    whole = NumberedHeaders(b"split", range(10), None)
    part = NumberedHeaders(b"split", range(4, 10), [[("own", b"x")]] * 6)
    assert part[0:1] == [[("own", b"x"), *whole[4:5][0]]]
    assert [dict(each)["shipper-number"] for each in whole[8:]] == [b"9", b"10"]
    assert NumberedHeaders(b"other", range(1), None)[:] != whole[:1]
