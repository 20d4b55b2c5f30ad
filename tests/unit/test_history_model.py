"""The model that a history of runs is compared with (tests/chaos/history.py): which counts it takes
for right, and which for wrong."""

from __future__ import annotations

from collections import Counter

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


@pytest.mark.parametrize(("succeeded", "least"), [(True, 1), (False, 0)])
def test_a_version_that_was_replaced_counts_for_sure_if_a_run_had_succeeded(
    model: Model, succeeded: bool, least: int
) -> None:
    _shipped(model, _FILE, succeeded=succeeded)
    model.write(FileVersion(_FILE.path, 1, 2_000, (1,)))
    _shipped(model, FileVersion(_FILE.path, 1, 2_000, (1,)))
    assert _bounds(model, _FILE) == {Bounds(least, 1)}


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
