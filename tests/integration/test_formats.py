"""Files as the real tools make them, whole and damaged: read to the last line, or refused by name
and with the reason."""

import json
import shutil
from collections import Counter

import pytest
from shipper_tools.dev.console_consumer import read_records

from shipper.driver.recognition import HEAD_BYTES, recognise
from tests.data import FORMATS, packed_log

from .world import World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LINES = lines_of(packed_log())


def plant(world, name, as_name=None):
    shutil.copy(FORMATS / name, world.write_log(as_name or name, b""))


def readable(path):
    return not recognise(path.name, path.read_bytes()[:HEAD_BYTES]).problem


def test_every_file_is_shipped_whole_or_refused_by_name_and_the_run_says_which(world):
    good = Counter()
    for path in sorted(set(FORMATS.glob("*.log*"))):
        world.write_log(path.name, path.read_bytes())
        good += LINES if readable(path) else Counter()
    world.write_log("text.log.gz", b"text under a packed name\n")
    said = world.fails(code=1, says=r"files cannot be read: .*Everything else was sent")
    flat = " ".join(said.split())
    for path in FORMATS.glob("refused-*"):
        assert f"{path.name}: " in flat
    assert "text.log.gz: its name says gzip, and it does not begin as a file of gzip does" in flat
    assert world.read() == good
    assert sum(good.values()) >= 12 * sum(LINES.values())
    # They are found again each time, and nothing else is sent again.
    world.fails(code=1, says="refused-xz.log.xz: it is a file of xz")
    assert world.read() == good


NAMES = [
    "2026-11-01T00:15:00.log",
    "a b  c.log",
    "100%41.log",
    "📜.log",
    "new\nline.log",
    "[x]{y}*?.log",
    "quote'\"\\.log",
    "sub:1/part=a+b&c#d.log",
]


def test_any_name_that_a_file_system_allows_is_shipped(world):
    """Also under a pattern, which Hadoop's own globber does not match against a colon."""
    files = {name: f"{number} {name!r}\n".encode() for number, name in enumerate(NAMES)}
    for name, content in files.items():
        world.write_log(name, content)
    world.write_pipeline(
        source={"path": "l?gs", "settle": "0s", "recursive": True},
        records={
            "headers": {"file": "file_name", "name": "url_decode(replace(file_name, '+', '%2B'))"},
            "drop": {"none": "file_path IS NULL"},
        },
        gates={
            "source": [
                {"check": "rows", "min": len(NAMES), "on": "full"},
                {"check": "duplicate_files"},
                {"check": "no_bom"},
            ]
        },
    )
    world.run()
    assert world.read() == lines_of(*files.values())
    headers = {
        record.value: dict(record.headers)
        for record in read_records(world.bootstrap, world.topic())
    }
    for name, content in files.items():
        assert headers[content.rstrip(b"\n")]["name"] == name.rpartition("/")[2].encode()
    assert headers[files["a b  c.log"].rstrip(b"\n")]["file"] == b"a%20b%20%20c.log"
    assert world.run()["delivered"] == 0


@pytest.mark.long
def test_what_cannot_be_read_and_what_is_too_long_stops_the_run_or_goes_to_quarantine(
    tmp_path, kafka
):
    world = World(tmp_path, kafka.bootstrap, topics={"": 3, ".q": 1})
    plain = b"before\n" + b"x" * 5000 + b"\nbehind\n"
    world.write_log("long.log", plain)
    world.write_log("cut.log.gz", (FORMATS / "gzip-members.log.gz").read_bytes()[:-7])
    plant(world, "zstd.log.zst", "packed under this name.log")
    world.write_pipeline(records={"max_line": "1kB"})
    world.fails(
        code=1,
        says=r"long\.log \(split at byte 0\), record 2: it is longer than `records\.max_line`",
    )
    world.write_pipeline(
        records={"max_line": "1kB"},
        source={"path": "logs", "settle": "0s", "on_unreadable": "quarantine"},
        quarantine={"topic": world.topic(".q"), "max_rate": 1.0, "keep": "4B"},
    )
    run = world.run()
    assert run["quarantined"] == {"too_large": 1, "unreadable": 1}
    assert world.read() == LINES + Counter([b"before", b"behind"])
    assert world.read(".q") == Counter([b"xxxx", b""])
    # The page does not call that plainly good, and a record that stands for a file is none that
    # the page on quarantine would ship.
    page = max(world.root.glob("runs/**/report.html"), key=lambda page: page.stat().st_mtime)
    assert (
        "local: 1 file could not be read; one record in quarantine stands for it"
        in page.read_text()
    )
    shown = world.shipper(
        "quarantine", "show", world.name, "--reason", "unreadable", "--json"
    ).stdout
    assert json.loads(shown)["cut"]
    assert world.run()["delivered"] == 0
    assert sum(world.read(".q").values()) == 2
