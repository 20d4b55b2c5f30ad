"""What the sink and the driver make of what the reader says."""

import pyarrow as pa
import pytest

from shipper.driver.pieces import PieceReport, broken_files, file_pieces
from shipper.driver.unreadable import cannot_be_read, too_long, wrong_sizes
from shipper.errors import SourceError, SourceUnreachable
from shipper.report.plan_result import PlannedFile
from shipper.worker.cut import split_slices
from shipper.worker.marks import BROKEN, END, TOO_LONG, UNREADABLE, decode_mark
from shipper.worker.receipt import Receipt, SplitReceipt

LOWEST = -(1 << 63)
SPLITS = {7, 8, 1 << 61, -5}


def marked(split, mark):
    return {
        TOO_LONG: ~split,
        BROKEN: ~split ^ LOWEST,
        UNREADABLE: split ^ LOWEST,
        END: split ^ 1 << 62,
    }[mark]


def test_a_mark_and_its_split_are_known_from_one_number():
    for split in SPLITS:
        assert decode_mark(split, SPLITS) == (split, None)
        for mark in (TOO_LONG, BROKEN, UNREADABLE, END):
            assert decode_mark(marked(split, mark), SPLITS) == (split, mark)
    assert decode_mark(99, SPLITS) == (99, None)


END_OF_7, END_OF_8 = marked(7, END), marked(8, END)


def batch(*rows):
    splits, values = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(
        {"split": pa.array(splits, pa.int64()), "value": pa.array(values, pa.binary())}
    )


def cut(*batches, size=1000):
    return [
        (p.split, p.first, p.rows, p.marked, p.broken, p.ends_split)
        for p in split_slices(iter(batches), lambda: size, SPLITS)
    ]


def test_a_line_that_is_too_long_is_one_of_its_split():
    rows = batch(
        (7, b"a"),
        (~7, b"be"),
        (7, b"c"),
        (END_OF_7, None),
        (~8, b"be"),
        (8, b"d"),
        (END_OF_8, None),
    )
    assert cut(rows) == [
        (7, 0, 3, {TOO_LONG: [1]}, False, True),
        (8, 0, 2, {TOO_LONG: [0]}, False, True),
    ]
    assert cut(batch((7, b"a")), batch((~7, b"b"), (END_OF_7, None)), size=1) == [
        (7, 0, 1, {}, False, False),
        (7, 1, 1, {TOO_LONG: [0]}, False, True),
    ]


def test_a_slice_has_as_many_rows_as_memory_holds_with_their_keys_and_headers():
    rows = batch(*[(7, b"x" * 10)] * 9)
    assert [part[2] for part in cut(rows, size=40)] == [4, 4, 1]
    headers = pa.array([{"path": b"x" * 200}] * 9, pa.struct([("path", pa.binary())]))
    rows = rows.append_column("key", pa.array([b"x" * 90] * 9)).append_column("headers", headers)
    assert [part[2] for part in cut(rows, size=600)] == [2, 2, 2, 2, 1]


def test_a_split_that_breaks_off_has_no_end_and_the_next_one_does():
    broken = marked(7, BROKEN)
    assert cut(batch((7, b"a"), (broken, None), (8, b"b"), (END_OF_8, None))) == [
        (7, 0, 1, {}, True, False),
        (8, 0, 1, {}, False, True),
    ]
    assert cut(batch((8, b"a"), (END_OF_8, None), (broken, None))) == [
        (8, 0, 1, {}, False, True),
        (7, 0, 0, {}, True, False),
    ]
    assert cut(batch((7, b"aa"), (7, b"b"), (broken, None)), size=1) == [
        (7, 0, 1, {}, False, False),
        (7, 1, 1, {}, True, False),
    ]


def test_a_stream_that_is_cut_off_ends_no_split():
    """Arrow takes a stream that Spark closed on an error for one without more batches."""
    assert cut(batch((7, b"a"), (7, b"b"))) == [(7, 0, 2, {}, False, False)]
    assert cut(batch((7, b"a")), batch((8, b"b"))) == [
        (7, 0, 1, {}, False, False),
        (8, 0, 1, {}, False, False),
    ]
    assert cut(batch((7, b"a")), batch((END_OF_7, None), (END_OF_8, None))) == [
        (7, 0, 1, {}, False, True),
        (8, 0, 0, {}, False, True),
    ], "of 8 there is no line, and that is all of it"


def planned(format="plain", size=100, **more):
    return PlannedFile(
        path=f"/l/{format}",
        uri=f"file:/l/{format}",
        size_bytes=size,
        modified_ms=0,
        splits=1,
        format=format,
        **more,
    )


@pytest.mark.parametrize(
    ("file", "lines", "unpacked", "stored", "fault"),
    [
        (planned(), 100, 100, 100, ""),
        (planned(), 101, 100, 100, ""),  # no end behind the last line
        (planned(bom=True), 97, 97, 100, ""),
        (planned(), 99, 100, 100, "its lines have 99 bytes, and 100 are to be read"),
        (planned(), 102, 100, 100, "its lines have 102 bytes"),
        (planned("gzip"), 5000, 5000, 100, ""),
        (planned("gzip"), 4000, 5000, 100, "its lines have 4,000 bytes, and 5,000 were unpacked"),
        (planned("lz4"), 5000, 5000, 60, "60 of its 100 bytes were read"),
        (planned("bzip2"), 5000, 5000, -1, ""),
        (planned(), None, 100, 100, ""),  # a line too long to be read whole
    ],
)
def test_a_file_of_which_the_tasks_saw_other_bytes_than_there_are_is_named(
    file, lines, unpacked, stored, fault
):
    (piece,) = file_pieces([file], 1000)
    report = PieceReport(piece.split, stored, unpacked, 3, "")
    receipt = Receipt(0, splits={piece.split: SplitReceipt(read=lines)})
    found = wrong_sizes([piece], [report], [receipt])
    assert found == ([file] if fault else [])
    assert file.problem.startswith(fault)


def test_a_file_that_no_task_saw_is_wrong_and_one_without_a_report_is_not_judged():
    (piece,) = file_pieces([planned()], 1000)
    assert wrong_sizes([piece], [], []) == []
    assert wrong_sizes([piece], [PieceReport(piece.split, 100, 100, 3, "")], []) == [piece.file]


def test_a_broken_file_is_named_once_with_the_readers_reason():
    file = planned(size=250)
    first, second, third = file_pieces([file], 100)
    reports = [
        PieceReport(p.split, 0, 0, 0, why)
        for p, why in ((first, "cut off"), (second, ""), (third, "cut off"))
    ]
    assert broken_files([first, second, third], reports) == [file]
    assert file.problem == "cut off"


def test_the_bytes_of_records_that_are_too_long_are_told_with_the_file_that_has_the_most():
    small, large = planned(), planned()
    large.path, large.uri = f"{large.path}.csv", f"{large.uri}.csv"
    pieces = list(file_pieces([small, large], 1000))
    reports = [
        PieceReport(piece.split, 0, 0, 1, "", long_bytes=size)
        for piece, size in zip(pieces, (10, 2_000), strict=True)
    ]
    assert f"2,010 bytes ({large.path}: 2,000)" in too_long(pieces, reports)
    assert too_long(pieces, [PieceReport(piece.split, 0, 0, 1, "") for piece in pieces]) == ""


def test_files_that_another_run_may_read_are_told_from_those_that_somebody_must_repair():
    (piece,) = file_pieces([planned()], 1000)
    broken_files([piece], [PieceReport(piece.split, 0, 0, 0, "no DataNode", passing=True)])
    assert piece.file.passing
    error = cannot_be_read([piece.file], "Nothing was sent.")
    assert isinstance(error, SourceUnreachable)
    assert error.retriable
    assert (
        error.message
        == "1 file cannot be read: /l/plain: no DataNode. Run again. Nothing was sent. "
        "[SHIP-302]"
    )
    damaged = planned("gzip", problem="cut off")
    error = cannot_be_read([piece.file, damaged], "Nothing was sent.")
    assert type(error) is SourceError
    assert not error.retriable
    assert (
        "2 files cannot be read: /l/gzip: cut off; /l/plain: no DataNode. Repair or remove it, and "
        "run" in error.message
    )


def test_files_that_cannot_be_read_are_named_by_their_reason():
    files = [
        PlannedFile(path=f"/logs/{n}.log", size_bytes=1, modified_ms=0, splits=1, passing=True)
        for n in range(240)
    ]
    for file in files:
        file.problem = "nobody answers" if file.path != "/logs/7.log" else "no permission"
    said = cannot_be_read(files, "Nothing was sent.").message
    assert said.count("nobody answers") == said.count("no permission") == 1
    assert "/logs/0.log" in said
    assert "/logs/7.log: no permission" in said
    assert "236" in said, "of 239 the first three"
