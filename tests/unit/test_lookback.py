"""Which window a file belongs to where its time of modification decides."""

from __future__ import annotations

import datetime as dt

from shipper.driver.files import ListedFile, NotTaken
from shipper.driver.lookback import LookBack
from shipper.types import FileId
from shipper.windows.window import Window, to_ms

MIDNIGHT = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
HOURS = [Window(MIDNIGHT + dt.timedelta(hours=n), MIDNIGHT + dt.timedelta(hours=n + 1)) for n in range(3)]


def modified(milliseconds: int, *, open: bool = False) -> ListedFile:
    return ListedFile(FileId(f"/logs/{milliseconds}", 1, to_ms(MIDNIGHT) + milliseconds), "", open=open)


def test_a_file_is_of_the_window_in_which_it_was_last_modified():
    back = LookBack(HOURS, {}, {hour: frozenset({str(hour)}) for hour in HOURS}, {"c": MIDNIGHT}, by_modified=True)
    hour = 3_600_000
    first, last, second, third = (modified(at) for at in (0, hour - 1, hour, 3 * hour - 1))
    own = modified(3 * hour)
    assert [back.holds(file) for file in (first, last, second, third, own)] == [True, True, True, True, False]
    assert [HOURS.index(back.window_of(file)) for file in (first, last, second, third)] == [0, 0, 1, 2]
    back.note([first, last, third, own])
    assert back.result().empty == [str(HOURS[1])]


def test_an_open_file_is_of_the_window_in_which_it_will_be_closed_if_that_decides_and_of_its_folders_if_they_do():
    file = modified(1, open=True)
    left = [NotTaken(file, "open for writing, says HDFS", "open")]
    by_modified = LookBack(HOURS, {}, {}, {"c": MIDNIGHT}, by_modified=True)
    by_modified.take([], left)
    assert by_modified.left_out == []
    by_path = LookBack(HOURS, {"": HOURS[0]}, {}, {"c": MIDNIGHT})
    by_path.take([], left)
    assert [(found.reason, found.window) for found in by_path.left_out] == [("open for writing, says HDFS", str(HOURS[0]))]
