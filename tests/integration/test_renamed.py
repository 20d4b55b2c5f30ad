"""A file that was renamed, packed, moved or has grown is known by its content: each of its lines is
in the topic once."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shipper.ledger.sums import ByteSum, sum_of
from shipper.report.results import RunReport
from tests.integration.world import World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_SMALL_SPLITS = {"path": "logs", "settle": "0s", "recursive": True, "split_size": "64KiB"}


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    made = make_world()
    made.write_pipeline(source=_SMALL_SPLITS)
    return made


def log_lines(name: str, count: int, first: int = 0) -> bytes:
    return b"".join(
        b"%s line %06d of a log that is long enough to be told from others\n"
        % (name.encode(), first + i)
        for i in range(count)
    )


def pack(path: Path) -> Path:
    """As gzip does: the packed file has the time of the plain one."""
    packed, status = path.with_name(path.name + ".gz"), path.stat()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    os.utime(packed, (status.st_atime, status.st_mtime))
    path.unlink()
    return packed


def renamed(path: Path, name: str) -> Path:
    new = path.parent / name
    new.parent.mkdir(exist_ok=True)
    return path.rename(new)


def recognised(report: RunReport) -> list[tuple[str, str, bool]]:
    """(former name, name, whether all of it was delivered before)"""
    assert report.plan is not None
    return [
        (one.original.path.rpartition("/")[2], one.path.rpartition("/")[2], one.complete)
        for cluster in report.plan.clusters
        for one in cluster.recognised
    ]


def warned(report: RunReport) -> list[str]:
    assert report.plan is not None
    return [one.path.rpartition("/")[2] for one in report.plan.left_out if one.warns]


def sent(report: RunReport) -> int:
    return sum(ship.delivered for ship in report.ships)


def chunks_of(world: World) -> list[dict[str, Any]]:
    done = world.shipper("ledger", "show", world.name, "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    (of_cluster,) = json.loads(done.stdout).values()
    found: list[dict[str, Any]] = of_cluster["chunks"]
    return found


def verified(world: World) -> None:
    for command in (("ledger", "verify"), ("ledger", "show", "--files")):
        done = world.shipper(*command, world.name)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_what_logrotate_does_sends_each_line_once(world: World) -> None:
    first, second = log_lines("first", 4000), log_lines("second", 100)
    path = world.write_log("app.log", first)
    assert sent(world.report()) == 4000
    chunks = chunks_of(world)
    assert len({chunk["split"] for chunk in chunks}) > 1
    assert len({chunk["head"] for chunk in chunks}) == 1, (
        "whichever of a file's chunks are committed, they find it"
    )

    path = renamed(path, "app.log.1")
    world.write_log("app.log", second)
    report = world.report()
    assert recognised(report) == [("app.log", "app.log.1", True)]
    assert sent(report) == 100
    assert world.read() == lines_of(first, second)

    path = pack(renamed(path, "app.log.2"))
    renamed(world.logs / "app.log", "app.log.1")
    third = log_lines("third", 10)
    world.write_log("app.log", third)
    report = world.report()
    assert sorted(recognised(report)) == [
        ("app.log", "app.log.1", True),
        ("app.log.1", "app.log.2.gz", True),
    ]
    assert sent(report) == 10
    assert any("recognised by content" in note.text for note in report.ships[0].findings)

    renamed(path, "done/app.log.2.gz")
    report = world.report()
    assert recognised(report) == [("app.log.2.gz", "app.log.2.gz", True)]
    assert sent(report) == 0
    report = world.report()
    assert (recognised(report), sent(report)) == ([], 0), "the proof is done once"
    assert world.read() == lines_of(first, second, third)
    verified(world)


def test_a_path_that_files_pass_through_takes_a_file_that_nobody_has_seen(world: World) -> None:
    """A file may be written and renamed between two runs, a new one may be empty at first, and may
    hold just what the former one held."""
    first, unseen = log_lines("first", 10), log_lines("unseen", 20)
    path = world.write_log("app.log", first)
    world.report()
    path = renamed(path, "app.log.1")
    world.write_log("app.log", b"")
    report = world.report()
    assert (recognised(report), sent(report)) == ([("app.log", "app.log.1", True)], 0)
    assert sent(world.report()) == 0, (
        "the empty file is all that is there beside what was delivered"
    )
    renamed(path, "app.log.2")
    world.write_log("app.log.1", unseen)
    world.write_log("app.log", first)
    report = world.report()
    assert (recognised(report), sent(report)) == ([("app.log.1", "app.log.2", True)], 30)
    assert world.read() == lines_of(first, unseen, first)
    verified(world)


def test_other_files_with_the_same_beginning_are_shipped(world: World) -> None:
    """Also if a rule drops the lines of that beginning, and so all that a checksum would tell."""
    world.write_pipeline(source=_SMALL_SPLITS, records={"drop": {"comments": "value like '#%'"}})
    head = b"-" * 2000 + b"\n"
    world.write_log("a.csv", head + log_lines("a", 500))
    world.write_log("a.log", BANNER + log_lines("a", 100))
    world.report()
    for path in list(world.logs.iterdir()):
        path.unlink()
    world.write_log("b.csv", head.replace(b"\n", b"!\n") + log_lines("b", 500))
    world.write_log("b.log", BANNER + log_lines("b", 100))
    report = world.report()
    assert (recognised(report), warned(report), sent(report)) == ([], [], 601)


@pytest.mark.long
def test_a_copy_beside_what_its_original_became_is_shipped(world: World) -> None:
    """The file lies there, if under another name or longer than it was when it was shipped."""
    world.write_pipeline(source={**_SMALL_SPLITS, "on_replaced": "continue"})
    content, more = log_lines("a", 50), log_lines("more", 30)
    path = world.write_log("a.log", content)
    world.report()
    path.write_bytes(content + more)
    assert sent(world.report()) == 30
    world.write_log("copy.log", content + more)
    assert sent(world.report()) == 80
    renamed(path, "b.log")
    world.report()
    renamed(world.logs / "b.log", "c.log")
    world.report()
    world.write_log("another.log", content + more)
    assert sent(world.report()) == 80
    assert world.read() == lines_of(*[content + more] * 3)


@pytest.mark.long
def test_a_new_name_is_a_new_file_if_the_pipeline_says_so(world: World) -> None:
    world.write_pipeline(source={**_SMALL_SPLITS, "on_renamed": "ship"})
    content = log_lines("a", 50)
    path = world.write_log("a.log", content)
    world.report()
    renamed(path, "b.log")
    assert sent(world.report()) == 50
    assert world.read() == lines_of(content, content)


def test_a_file_that_has_grown_is_continued_under_its_name_and_another(world: World) -> None:
    world.write_pipeline(source={**_SMALL_SPLITS, "on_replaced": "continue"})
    first, second, third = (log_lines(name, 1500) for name in ("first", "second", "third"))
    world.write_log("app.log", first)
    world.report()
    path = world.write_log("app.log", first + second)
    report = world.report()
    assert (recognised(report), sent(report)) == ([("app.log", "app.log", False)], 1500)
    path = world.write_log("app.log", first + second + third)
    path = renamed(path, "app.log.1")
    report = world.report()
    assert (recognised(report), sent(report)) == ([("app.log", "app.log.1", False)], 1500)
    assert world.read() == lines_of(first, second, third)

    pack(path)
    world.write_log("app.log", log_lines("other", 3))
    report = world.report()
    assert (recognised(report), sent(report)) == ([("app.log.1", "app.log.1.gz", True)], 3)
    verified(world)


def test_a_file_that_has_grown_is_called_that_and_nothing_is_sent(world: World) -> None:
    first = log_lines("first", 100)
    path = world.write_log("app.log", first)
    world.report()
    shutil.copy2(path, path.with_name("app.log.bak"))
    world.write_log("app.log", first + b"more\n")
    world.fails(code=1, says="has grown since.*on_replaced: continue")
    renamed(path, "app.log.1")
    world.write_log("other.log", b"another\n")
    report = world.report()
    # Of two files with the content of one that is gone, one is that file.
    assert (recognised(report), warned(report), sent(report)) == (
        [("app.log", "app.log.bak", True)],
        [],
        102,
    )
    assert world.read() == lines_of(first, first, b"more\n", b"another\n")


def test_a_short_log_that_grew_before_it_was_rotated_goes_on(world: World) -> None:
    """It had less than a head, so only its name says where it was."""
    world.write_pipeline(source={**_SMALL_SPLITS, "on_replaced": "continue"})
    short, more = b"one line\n", log_lines("more", 50)
    world.write_log("app.log", short)
    world.report()
    pack(renamed(world.write_log("app.log", short + more), "app.log.1"))
    world.write_log("app.log", b"another\n")
    report = world.report()
    assert (recognised(report), sent(report)) == ([("app.log", "app.log.1.gz", False)], 51)
    assert world.read() == lines_of(short, more, b"another\n")


def test_a_log_that_grew_before_it_was_rotated_is_left_out_and_its_successor_is_shipped(
    world: World,
) -> None:
    """What logrotate leaves if lines come between the last run and the rotation. Nothing was
    replaced."""
    first, more, successor = (log_lines(name, 50) for name in ("first", "more", "successor"))
    world.write_log("app.log", first)
    world.report()
    renamed(world.write_log("app.log", first + more), "app.log.1")
    world.write_log("app.log", successor)
    report = world.report()
    assert (warned(report), sent(report)) == (["app.log.1"], 50)
    world.write_pipeline(source={**_SMALL_SPLITS, "on_replaced": "continue"})
    assert sent(world.report()) == 50
    assert world.read() == lines_of(first, more, successor)
    verified(world)


@pytest.mark.long
def test_a_new_log_at_the_path_of_one_that_was_rotated_out_is_shipped(world: World) -> None:
    """logrotate keeps a few files. If no run looks for longer than that, what was shipped is
    nowhere, and each path holds what nobody has seen."""
    world.write_pipeline(source={**_SMALL_SPLITS, "on_replaced": "continue"})
    old, older, new, newer = (log_lines(name, 100) for name in ("old", "older", "new", "newer"))
    world.write_log("app.log", old)
    world.write_log("app.log.1", older)
    world.report()
    world.write_log("app.log", newer)
    world.write_log("app.log.1", new)
    report = world.report()
    assert (warned(report), sent(report)) == ([], 200)
    assert any(
        "app.log and 1 more" in note.text
        for cluster in report.plan.clusters
        for note in cluster.findings
    )  # type: ignore[union-attr]
    assert sent(world.report()) == 0
    world.write_log("app.log", newer + log_lines("more", 7))
    assert sent(world.report()) == 7, "what lay there first is forgotten"
    world.write_log("app.log", b"")
    world.write_log("other.log", b"another\n")
    assert sent(world.report()) == 1, "an empty file holds nothing that was shipped"
    assert world.read() == lines_of(old, older, new, newer, log_lines("more", 7), b"another\n")
    verified(world)


def test_a_rewritten_file_is_left_out_by_name_and_holds_up_no_other(world: World) -> None:
    world.write_pipeline(source={**_SMALL_SPLITS, "on_replaced": "continue"})
    first, second = log_lines("first", 100), log_lines("second", 100)
    path, short = world.write_log("a.log", first), world.write_log("b.log", second)
    world.report()
    path.write_bytes(first.replace(b"000050", b"000xxx"))
    short.write_bytes(second[:650])
    world.write_log("other.log", b"another\n")
    report = world.report()
    assert (sorted(warned(report)), sent(report)) == (["a.log", "b.log"], 1)
    assert report.plan is not None
    assert [one.code for one in report.plan.left_out] == ["doubtful"] * 2
    # The reason names the remedy for another file: another name.
    renamed(path, "c.log")
    report = world.report()
    assert (warned(report), sent(report)) == (["b.log"], 100)


BANNER = b"#Fields: time host request and whatever else this server logs\n" * 20


@pytest.mark.long
def test_a_log_of_several_splits_is_shipped_though_a_packed_one_that_is_gone_began_alike(
    world: World,
) -> None:
    """A long banner makes the heads the same. Its lines are counted in one split there, and in
    several here."""
    world.write_log("app.log.4.gz", gzip.compress(BANNER + log_lines("old", 500)))
    world.report()
    (world.logs / "app.log.4.gz").unlink()
    world.write_log("app.log", BANNER + log_lines("new", 4000))
    report = world.report()
    assert (warned(report), sent(report)) == ([], 4020)
    # Content is summed up as it unpacks, however it is cut.
    world.write_log("new.log.gz", gzip.compress(BANNER + log_lines("other", 4000)))
    world.report()
    (world.logs / "new.log.gz").unlink()
    world.write_log("new.log", BANNER + log_lines("other", 4000))
    report = world.report()
    assert (recognised(report), sent(report)) == ([("new.log.gz", "new.log", True)], 0)


def test_a_log_goes_on_though_longer_ones_that_are_gone_began_alike(world: World) -> None:
    """Records hold the file's name, so each candidate is read under its own."""
    world.write_pipeline(
        source={**_SMALL_SPLITS, "on_replaced": "continue"},
        records={"value": "concat(file_name, value)"},
    )
    for number in range(6):
        world.write_log(f"old-{number}.log", BANNER + log_lines(f"old-{number}", 300 + number))
    short = BANNER + log_lines("app", 5)
    world.write_log("app.log", short)
    assert sent(world.report()) == 7 * 20 + 6 * 300 + 15 + 5
    for number in range(6):
        (world.logs / f"old-{number}.log").unlink()
    renamed(world.write_log("app.log", short + log_lines("more", 900)), "app.log.1")
    report = world.report()
    assert (recognised(report), warned(report), sent(report)) == (
        [("app.log", "app.log.1", False)],
        [],
        900,
    )


def test_a_file_is_recognised_whatever_a_transform_makes_of_it(world: World) -> None:
    path = world.write_log("a.log", log_lines("a", 100))
    world.report()
    world.write_pipeline(source=_SMALL_SPLITS, records={"value": "upper(value)"})
    renamed(path, "b.log")
    world.write_log("other.log", b"another\n")
    report = world.report()
    assert (recognised(report), sent(report)) == ([("a.log", "b.log", True)], 1)


def test_a_file_that_was_shipped_in_part_is_left_out_under_its_new_name(world: World) -> None:
    """One line is too long. Without a quarantine the run stops there, with some chunks
    committed."""
    delivery = {"lease": "2s", "lease_wait": "30s", "chunk_size": "100kB", "lanes": 1}
    records = {"max_line": "100kB"}
    content, long = log_lines("a", 6000), b"x" * 200_000 + b"\n"
    world.write_pipeline(source=_SMALL_SPLITS, delivery=delivery, records=records)
    path = world.write_log("app.log", content + long + log_lines("b", 10))
    world.fails(code=1, says="max_line")
    before = world.ledger_count()
    assert 0 < before < 6000

    world.client.create_topics({world.topic(".bad"): 1}, replication_factor=1)
    world.write_pipeline(
        source=_SMALL_SPLITS,
        delivery=delivery,
        records=records,
        quarantine={"topic": world.topic(".bad"), "max_rate": 0.5},
    )
    path = renamed(path, "app.log.1")
    report = world.report()
    assert (recognised(report), warned(report), sent(report)) == ([], ["app.log.1"], 0)
    renamed(path, "app.log")
    assert sent(world.report()) == 6010 - before
    verified(world)
    assert world.read() == lines_of(content, log_lines("b", 10))


@pytest.mark.long
def test_records_that_hold_the_files_path_are_compared_under_the_former_one(world: World) -> None:
    world.client.create_topics({world.topic(".odd"): 2}, replication_factor=1)
    world.write_pipeline(
        source=_SMALL_SPLITS,
        topic=None,
        routes=[
            {"topic": world.topic(".odd"), "when": "value like '%1 of a log%'"},
            {"topic": world.topic()},
        ],
        records={
            "columns": {"name": "concat(file_name, ' ', value, ' from 10.1.2.3')"},
            "value": "name",
            "key": "file_path",
            "drop": {"fives": "value like '%5 of a log%'"},
            "redact": [{"rule": "ipv4"}],
        },
        gates={"delivery": [{"check": "sum_closes"}, {"check": "checksum"}]},
    )
    path = world.write_log("app.log", log_lines("a", 3000))
    assert sent(world.report()) == 2700
    pack(renamed(path, "old.log"))
    report = world.report()
    assert (recognised(report), sent(report)) == ([("app.log", "old.log.gz", True)], 0)
    assert sum(world.read().values()) + sum(world.read(".odd").values()) == 2700
    verified(world)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"records": {"starts_with": "^first line 0000.0"}},
        {"source": {**_SMALL_SPLITS, "format": "csv"}, "records": {"value": "value"}},
        {"source": {**_SMALL_SPLITS, "encoding": "ISO-8859-1"}},
    ],
    ids=["lines", "starts_with", "csv", "encoding"],
)
def test_the_ledger_has_the_sum_of_each_files_content_however_it_is_read(
    world: World, more: dict[str, Any]
) -> None:
    """In splits, packed or not, by an independent CRC-32. A record of several lines goes beyond its
    split's end."""
    world.write_pipeline(**{"source": _SMALL_SPLITS, **more})
    content = log_lines("first", 3000) + b"a last line without an end"
    world.write_log("plain.log", content)
    world.write_log("one.log.gz", gzip.compress(content))
    world.write_log("two.log.bz2", bz2.compress(content[:1000]) + bz2.compress(content[1000:]))
    world.report()
    sums: dict[str, list[tuple[int, ByteSum]]] = {}
    for chunk in chunks_of(world):
        if chunk["end"]:
            name = chunk["path"].rpartition("/")[2]
            sums.setdefault(name, []).append((chunk["split"], ByteSum.parse(chunk["sum"])))
    found = {name: sum_of(each for _, each in sorted(parts)) for name, parts in sums.items()}
    assert {(each.length, each.crc32) for each in found.values()} == {
        (len(content), zlib.crc32(content))
    }
    assert found.keys() == {"plain.log", "one.log.gz", "two.log.bz2"}
    assert len({each.crc32c for each in found.values()}) == 1
    cut = len(sums["plain.log"])
    assert cut > 1 if set(more) <= {"records"} else cut == 1


def test_two_runs_that_recognise_the_same_file_send_nothing(world: World) -> None:
    path = world.write_log("a.log", log_lines("a", 100))
    world.report()
    renamed(path, "b.log")
    world.steps_done("planned", "plan")  # and killed
    assert recognised(world.report()) == [("a.log", "b.log", True)]
    world.steps_done("planned", "gate_source", "ship:local", "gate_delivery:local", "report")
    assert sum(world.read().values()) == 100
    verified(world)
