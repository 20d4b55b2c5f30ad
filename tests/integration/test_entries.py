"""Every entry of a listed folder is in the plan: as a file, or counted with a reason. The
independent count is ``os.scandir``'s."""

import contextlib
import itertools
import json
import os
import re
import shutil
import socket
import time
from pathlib import Path

import pytest

from shipper.driver.files import REASONS

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def counts(found):
    by_code = {}
    for one in found.left_out:
        by_code[one.code] = by_code.get(one.code, 0) + one.count
    return by_code


def names(paths):
    return sorted(path.rpartition("/")[2] for path in paths)


def hostile_folder(world):
    """Makes one entry of each kind that a local file system has, and some that writers leave."""
    logs = world.logs
    for name in (
        "a.log",
        "naïve.log",
        "b:c.log",
        " d .log",
        "e\nf.log",
        "g%20h.log",
        "_SUCCESS",
        ".hidden.log",
        "i.log.tmp",
        "notes.txt",
    ):
        world.write_log(name, b"one\n")
    (logs / os.fsdecode(b"bad\xff.log")).write_bytes(b"one\n")
    (logs / os.fsdecode(b"caf\xe9.log")).write_bytes(b"one\n")
    os.mkfifo(logs / "fifo.log")
    with (
        socket.socket(socket.AF_UNIX) as listener,
        contextlib.chdir(logs),
    ):  # the name of a socket is short
        listener.bind("socket.log")
    (logs / "current.log").symlink_to("a.log")
    (logs / "dangling.log").symlink_to("nothing there")
    (logs / "loop.log").symlink_to("loop.log")
    elsewhere = world.root / "elsewhere.log"
    elsewhere.write_bytes(b"one\n")
    (logs / "elsewhere.log").symlink_to(elsewhere)
    world.write_log("below/j.log", b"one\n")
    world.write_log("_temporary/k.log", b"one\n")
    world.write_log(".staging/l.log", b"one\n")
    (logs / "self").symlink_to(".")
    ahead = time.time() + 86_400
    os.utime(world.write_log("future.log", b"one\n"), (ahead, ahead))


def test_entries_of_the_file_system_are_taken_or_left_out_with_a_reason(world):
    hostile_folder(world)
    daily = {"cron": "0 0 * * *", "start": "2026-11-01"}
    world.write_pipeline(
        schedule=daily, source={"path": "logs", "settle": "0s", "include": "*.log"}
    )
    found = world.plan()
    assert names(file.path for file in found.files) == [
        " d .log",
        "a.log",
        "b:c.log",
        "e\nf.log",
        "g%20h.log",
        "naïve.log",
    ]
    assert counts(found) == {
        "hidden": 2,
        "hidden-folder": 2,
        "folder": 1,
        "unwanted": 1,
        "unfinished": 1,
        "undecodable-name": 2,
        "special": 2,
        "link": 2,
        "link-outside": 1,
        "dangling-link": 2,
        "future": 1,
    }
    there = sum(1 for _ in os.scandir(world.logs))
    assert len(found.files) + sum(counts(found).values()) == there
    assert all(
        one.warns == REASONS[one.code].warns and one.path and one.reason for one in found.left_out
    )
    undecodable = next(one for one in found.left_out if one.code == "undecodable-name")
    assert names([undecodable.path, *undecodable.more]) == [r"bad\xFF.log", r"caf\xE9.log"]

    report = world.report()
    assert sum(world.read().values()) == len(found.files)
    assert report.fresh_until == {}, (
        "of a file with a time in the future nobody knows when it is taken"
    )
    page = Path(report.page or "").read_text()
    for text in ("decoded in the locale", r"bad\xFF.log", "leads nowhere", "in the future"):
        assert text in page
    left_out = [one for one in report.plan.left_out if one.warns]
    warned = [names([one.path, *one.more]) for one in left_out]
    for gate in report.delivery_gates:
        assert [names(note.paths) for note in gate.coverage.uncovered] == warned
    done = world.shipper("gaps", world.name, "--json")
    gap = json.loads(done.stdout)["gaps"][0]
    assert [path.rpartition("/")[2] for path in gap["paths"]] == list(itertools.chain(*warned))
    assert all(one.reason in gap["why"] for one in left_out), "each entry with its own reason"


def test_recursion_enters_no_link_and_no_hidden_folder_and_counts_them(world):
    hostile_folder(world)
    (world.logs / "below" / "up").symlink_to("..")
    (world.logs / "below" / "latest").symlink_to("../a.log")
    world.write_pipeline(source={"path": "logs", "settle": "0s", "recursive": True})
    found = world.plan()
    assert sum(file.path.endswith("/j.log") for file in found.files) == 1, (
        "not once for each way that leads there"
    )
    assert not [
        file
        for file in found.files
        if file.path.endswith(("/k.log", "/l.log", "/current.log", "/latest"))
    ]
    assert "folder" not in counts(found)
    assert counts(found)["link"] == 4
    assert counts(found)["hidden-folder"] == 2
    there = sum(1 for folder in (world.logs, world.logs / "below") for _ in os.scandir(folder))
    assert len(found.files) + sum(counts(found).values()) == there - 1, (
        "of `below` what is in it counts"
    )


@pytest.mark.long
def test_a_wildcard_matches_no_hidden_folder_and_a_name_does(world):
    for folder in ("app", "_temporary", ".staging"):
        world.write_log(f"{folder}/x.log", b"one\n")
    (world.logs / "latest").symlink_to("app")
    world.write_pipeline(source={"path": "logs/*/", "settle": "0s"})
    found = world.plan()
    assert [file.path.split("/")[-2] for file in found.files] == ["app"]
    assert counts(found) == {"hidden-folder": 2, "link": 1}
    for path in ("logs/_temporary/", "logs/_temp*/", "logs/{_temporary,x}/"):
        world.write_pipeline(source={"path": path, "settle": "0s", "when_empty": "succeed"})
        assert len(world.plan().files) == (path != "logs/{_temporary,x}/"), path


@pytest.mark.long
def test_a_named_pipe_is_refused_and_nobody_waits_for_its_writer(world):
    os.mkfifo(world.logs / "fifo")
    world.write_log("_hidden.log", b"one\n")
    world.write_pipeline(source={"path": "logs/fifo", "settle": "0s"})
    world.fails(code=1, says="1 special")
    again = ("replay", world.name, "--reason", "x", "--yes", "--files")
    done = world.shipper(*again, str(world.logs / "fifo"))
    assert done.returncode == 1
    assert "a pipe, a socket or a device" in done.stderr
    done = world.shipper(*again, str(world.logs / "_hidden.log"))
    assert done.returncode == 0, done.stderr[-4000:]
    assert sum(world.read().values()) == 1, "somebody wrote its name"


@pytest.mark.cold
@pytest.mark.long
def test_names_are_read_as_utf_8_where_the_locale_is_posix(world):
    world.write_log("naïve – файл.log", b"one\n")
    found = world.plan(prefix=["env", "-u", "LANG", "LC_ALL=POSIX"])
    assert names(file.path for file in found.files) == ["naïve – файл.log"]
    assert found.left_out == []


#: Root without its right to read everything: permissions hold for it as for anybody.
_WITHOUT_RIGHTS = [
    "setpriv",
    "--bounding-set",
    "-dac_override,-dac_read_search",
    "--inh-caps",
    "-dac_override,-dac_read_search",
]


@pytest.mark.cold
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="takes a right away from root"
)
@pytest.mark.long
def test_folders_that_cannot_be_read_are_named(world):
    world.write_log("a.log", b"one\n")
    for name, mode in (("shut", 0o000), ("names only", 0o444)):
        world.write_log(f"{name}/b.log", b"one\n")
        (world.logs / name).chmod(mode)
    world.write_pipeline(source={"path": "logs", "settle": "0s", "recursive": True})
    found = world.plan(prefix=_WITHOUT_RIGHTS)
    assert names(file.path for file in found.files) == ["a.log"]
    (row,) = found.left_out
    assert (row.code, row.count, row.warns) == ("unreadable-folder", 2, True)
    world.write_pipeline(source={"path": "logs/*/", "settle": "0s", "when_empty": "succeed"})
    left = counts(world.plan(prefix=_WITHOUT_RIGHTS))
    assert left == {"unreadable-folder": 2, "not-a-folder": 1}, "a wildcard met them"
    world.write_pipeline(source={"path": "logs/names only", "settle": "0s"})
    error = world.plan(prefix=_WITHOUT_RIGHTS).error or ""
    assert re.search(r"/logs/names only cannot be listed: .*SHIP-302", error), error


@pytest.mark.long
def test_a_run_reads_nothing_outside_of_what_the_platform_allows(world):
    """Whoever starts a step by hand gets past the command line's own check."""
    world.write_log("a.log", b"one\n")
    outside = world.root / "elsewhere" / "b.log"
    outside.parent.mkdir()
    outside.write_bytes(b"secret\n")
    (world.root / "config" / "shipper.yaml").write_text(
        "allow: {sources: [logs/, s3a://others/]}\n"
    )
    assert world.run()["delivered"] == 1
    request = world.root / "request.json"
    for path, why in (
        (str(outside), "allow.sources"),
        # A named file is no pattern, so no way out of the folder.
        (f"{world.logs}/\\../elsewhere/b.log", "does not exist"),
        (f"{world.logs}/.{{./elsewhere,x/y}}/b.log", "does not exist"),
    ):
        request.write_text(json.dumps({"files": [path]}))
        said = world.steps_fail("by-hand", "--request", str(request), "plan")
        assert why in " ".join(said.split())
    assert sum(world.read().values()) == 1
