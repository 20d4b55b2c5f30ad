"""The model that a history of runs is compared with (tests/chaos/history.py): which counts it takes
for right, and which for wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.chaos.history_model import (
    FIRST_TOPIC,
    Bounds,
    FileVersion,
    Model,
    Place,
    Record,
)

_FILE = FileVersion("history:///0001/1.log", 1, 1_000, (0,))
_NEXT = FileVersion("history:///0001/1.log", 1, 2_000, (0, 1))


def _places(file: FileVersion) -> list[Place]:
    return [Place(record.topic, record) for record in file.records()]


def _shipped(
    model: Model,
    *files: FileVersion,
    name: str = "run",
    succeeded: bool = True,
    reship: str | None = None,
) -> None:
    model.launched(name, files, reship)
    model.ended(name, succeeded=succeeded, reship=reship)


def _found(*files: FileVersion) -> Counter[Place]:
    return Counter(place for file in files for place in _places(file))


def _bounds(model: Model, file: FileVersion) -> set[Bounds]:
    bounds = model.bounds()
    return {bounds[place] for place in _places(file)}


@pytest.fixture
def model() -> Model:
    found = Model()
    found.write(_FILE)
    return found


def test_a_record_that_is_missing_or_doubled_or_strange_is_a_difference(model: Model) -> None:
    _shipped(model, _FILE)
    assert model.differences(_found(_FILE)) == []
    first, second, *rest = _places(_FILE)
    strange = Place(FIRST_TOPIC, Record("history:///0009/9.log", 0, 0, 0))
    differences = model.differences(Counter([second, second, *rest, strange]))
    assert {(place, found) for place, _, found in differences} == {
        (first, 0),
        (second, 2),
        (strange, 1),
    }


def test_a_file_that_is_there_is_shipped_at_the_end_whatever_became_of_its_runs(
    model: Model,
) -> None:
    _shipped(model, _FILE, succeeded=False)
    assert _bounds(model, _FILE) == {Bounds(1, 1)}


@pytest.mark.parametrize(("succeeded", "least"), [(True, 1), (False, 0)])
def test_a_version_that_was_replaced_counts_for_sure_if_a_run_had_succeeded(
    model: Model, succeeded: bool, least: int
) -> None:
    _shipped(model, _FILE, succeeded=succeeded)
    model.write(FileVersion(_FILE.path, 1, 2_000, (1,)))
    _shipped(model, FileVersion(_FILE.path, 1, 2_000, (1,)))
    assert _bounds(model, _FILE) == {Bounds(least, 1)}


def test_the_lines_of_a_file_that_has_grown_are_shipped_again(model: Model) -> None:
    _shipped(model, _FILE)
    model.write(_NEXT)
    _shipped(model, _NEXT)
    assert _bounds(model, _FILE) == {Bounds(2, 2)}
    assert model.differences(_found(_FILE, _NEXT)) == []


def test_a_file_that_is_gone_need_not_be_shipped_to_its_end(model: Model) -> None:
    _shipped(model, _FILE, succeeded=False)
    model.remove(_FILE.path)
    assert _bounds(model, _FILE) == {Bounds(0, 1)}


def test_a_reship_counts_once_however_many_runs_it_takes(model: Model) -> None:
    _shipped(model, _FILE)
    for succeeded in (False, False, True):
        _shipped(model, _FILE, reship="again", succeeded=succeeded)
    assert _bounds(model, _FILE) == {Bounds(2, 2)}


def test_a_reship_of_a_file_that_was_not_complete_leaves_its_first_records_open(
    model: Model,
) -> None:
    _shipped(model, _FILE, succeeded=False)
    _shipped(model, _FILE, reship="again")
    assert _bounds(model, _FILE) == {Bounds(1, 2)}


def test_a_run_that_was_under_way_when_a_reship_began_says_nothing_of_either(model: Model) -> None:
    model.launched("before", [_FILE], None)
    model.launched("reship", [_FILE], "again")
    model.ended("before", succeeded=True, reship=None)
    version: Iterable[bool] = [delivery.complete for delivery in model.now()[0].deliveries]
    assert version == [False, False]


def test_a_replayed_record_is_in_quarantine_and_in_its_topic(model: Model) -> None:
    files = [FileVersion(f"history:///0001/{number}.log", 1, 1, (0,)) for number in range(100)]
    file = next(file for file in files if not all(record.has_topic for record in file.records()))
    model.write(file)
    _shipped(model, file)
    record = next(record for record in file.records() if not record.has_topic)
    model.replayed([record])
    bounds = model.bounds()
    assert bounds[Place(FIRST_TOPIC, record)] == bounds[Place(record.topic, record)] == Bounds(1, 1)
