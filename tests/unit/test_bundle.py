"""Bundles: what may be written together with them, and what they leave as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from shipper.config import load_all
from shipper.worker.chunk import Chunk

SHORTEST = "pipeline: web\nsource: s3a://logs/web/\ntopic: logs.web\nclusters: [local]\n"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("pipelines", "clusters"):
        (tmp_path / "config" / folder).mkdir(parents=True)
    Path("config/clusters/local.yaml").write_text("cluster: local\nbootstrap: 127.0.0.1:9092\n")
    return Path("config")


def written(config: Path, more: str) -> Path:
    (config / "pipelines" / "web.yaml").write_text(SHORTEST + more)
    return config


def faults(config: Path, more: str) -> list[str]:
    return [
        str(fault).removeprefix("config/pipelines/web.yaml:")
        for fault in load_all(written(config, more)).faults
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            "records:\n  key: value\n  bundle: {}\n",
            "7:3: records.bundle",
        ),
        (
            "records:\n  bundle: {max_bytes: 1MB}\n  timestamp: time\n",
            "6:3: records.bundle",
        ),
        (
            "records: {bundle: {max_bytes: 2MB}}\ndelivery: {chunk_size: 1MB}\n",
            "6:1: delivery",
        ),
        (
            "records: {headers: {shipper-lines: value}}\n",
            "5:21: records.headers.shipper-lines",
        ),
        (
            "records: {bundle: {max_bytes: 10B}}\n",
            "5:31: records.bundle.max_bytes",
        ),
    ],
)
def test_what_contradicts_bundles_is_refused_at_load(
    config: Path, more: str, expected: str
) -> None:
    [fault] = faults(config, more)
    assert fault.startswith(f"{expected}: ")


def test_what_waits_or_is_sent_again_is_counted_in_lines() -> None:
    bundles = Chunk(
        "t", [b"a\nb\nc", b"d"], 6, b"key", lambda partition, topic_id: b"", "a.log", lines=4
    )
    alone = Chunk("t", [b"a", None], 1, b"key", lambda partition, topic_id: b"", "a.log")
    assert [chunk.counted for chunk in (bundles, alone)] == [4, 2]
    assert sum(chunk.counted for chunk in (bundles, alone)) == 6
    bundles.drop_records()
    assert bundles.counted == 4


def test_a_chunk_is_equal_to_itself_alone() -> None:
    """A transaction of a thousand topics was compared field by field, each chunk with each, while
    the pool was locked."""

    class Values(list[bytes]):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared by what is in it")

        __hash__ = None  # type: ignore[assignment]

    one, other = (
        Chunk("t", Values([b"a"]), 1, b"key", lambda partition, topic_id: b"", "label")
        for _ in range(2)
    )
    assert one != other
    assert other not in [one]
    assert len({one, other}) == 2
