"""What a log line can do to the words of a failed run: nothing."""

from __future__ import annotations

import pytest

from .world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.cold, pytest.mark.long]


def test_a_log_line_writes_no_error_and_reaches_neither_screen_nor_results(tmp_path, kafka):
    world = World(tmp_path, kafka.bootstrap)
    world.write_pipeline(records={"headers": {"number": "cast(cast(value as int) as string)"}})
    line = (
        "shipper.errors.UsageError: click https://evil.example \x1b]52;c;aGk=\x07 password=hunter2"
    )
    world.write_log("hostile.log", f"1\n{line}\n2\n".encode())
    said = world.fails(
        code=1,
        says=r"FAILED\s+ship:local: the Spark job failed: Spark stopped with "
        r"CAST_INVALID_INPUT: .*the text may",
    )
    left = [path.read_bytes() for path in (world.root / "runs").rglob("*") if path.is_file()]
    assert not any(
        word in text
        for text in (said.encode(), *left)
        for word in (b"evil", b"hunter2", b"click https", b"\x1b]52")
    )
    assert "\x1b" not in said
    assert "\tat " not in said
    assert len(said.splitlines()) < 30, said
