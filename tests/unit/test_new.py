"""`shipper new`: what a sample says, and a file that is right."""

import datetime as dt
import gzip
import re
from functools import cache

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shipper.cli import new as module
from shipper.cli.main import app
from shipper.cli.sample_file import look_at
from shipper.config.load import load_pipeline_alone
from shipper.errors import ShipperError, UsageError

CLF = '10.0.0.1 - - [01/Nov/2026:06:00:00 +0100] "GET / HTTP/1.1" 200 5\n'
TIMED = '{"ts": "2026-11-01T06:00:00Z"}\n'
_SCHEMAS = cache(module.schema_texts)
FLAGS = ["--source", "logs/{window_start:%Y/%m/%d/%H}/", "--topic", "logs.web", "--cluster", "near"]


@pytest.fixture(autouse=True)
def _schemas_once(monkeypatch):
    """To generate them takes a second."""
    monkeypatch.setattr(module, "schema_texts", _SCHEMAS)


@pytest.mark.parametrize(
    ("line", "is_json", "sql"),
    [
        (
            '{"level": "info", "ts": "2026-11-01T06:00:00.5Z"}\n',
            True,
            "try_to_timestamp(get_json_object(value, '$.ts'))",
        ),
        (
            '{"id": 12, "at": 1793512800123}\n',
            True,
            "timestamp_millis(try_cast(get_json_object(value, '$.at') AS BIGINT))",
        ),
        (
            '{"at": 1793512800.25}\n',
            True,
            "timestamp_seconds(try_cast(get_json_object(value, '$.at') AS DOUBLE))",
        ),
        (
            '{"@timestamp": "2026-11-01 06:00:00"}\n',
            True,
            "try_to_timestamp(get_json_object(value, '$[\\'@timestamp\\']'))",
        ),
        ("2026-11-01 06:00:00,123 INFO it's\n", False, "replace(regexp_extract(value, "),
        (CLF, False, "'dd/MMM/yyyy:HH:mm:ss Z')"),
    ],
)
def test_the_time_of_lines_is_found(tmp_path, line, is_json, sql):
    (tmp_path / "a.log").write_text(line * 20 + "\tat of.a.Stack\n")
    found = look_at(tmp_path / "a.log")
    assert (found.json, found.lines, found.packed) == (is_json, 21, "plain")
    assert sql in found.time.sql


def test_a_number_that_is_no_moment_and_lines_without_time_are_none(tmp_path):
    (tmp_path / "a.log").write_text('{"id": 12, "ok": true, "size": 1234567}\n' * 5)
    assert look_at(tmp_path / "a.log").time is None
    (tmp_path / "b.log").write_text("hello\n" + CLF)
    assert look_at(tmp_path / "b.log").time is None
    (tmp_path / "empty.log").write_bytes(b"")
    assert look_at(tmp_path / "empty.log").lines == 0


def sample(folder, name, text=""):
    """Write ``text``; without one, a table of two rows. (Its first array makes pyarrow import
    pandas.)"""
    path = folder / name
    if text:
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    else:
        table = pa.table(
            {"id": [1, 2], "at": pa.array([AT, AT], pa.timestamp("us", "UTC")), "who": ["a", None]}
        )
        (pq.write_table if name.endswith(".parquet") else orc.write_table)(table, path)
    return path


AT = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)


def test_a_file_that_shipper_would_refuse_is_refused_here(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + bytes(20))
    with pytest.raises(UsageError, match="which shipper does not read"):
        look_at(tmp_path / "a.zip")
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * 5000)[:30])
    with pytest.raises(UsageError, match="cannot be read"):
        look_at(tmp_path / "a.gz")


@pytest.mark.parametrize(
    ("line", "schedule"),
    [
        (None, "none"),
        (CLF, "0 * * * *"),
        (TIMED, "none"),
        ("no time\n", "0 * * * *"),
        ('{"a": 1}\n', "none"),
    ],
)
def test_what_is_written_is_a_pipeline(tmp_path, line, schedule):
    sample = tmp_path / 'odd "name".log'
    sample.write_text((line or "") * 3)
    flags = [*FLAGS, "--schedule", schedule, *(["--sample", str(sample)] if line else [])]
    done = CliRunner().invoke(
        app, ["new", "web", "--config", str(tmp_path), *flags], catch_exceptions=False
    )
    assert done.exit_code == 0
    pipeline = load_pipeline_alone(tmp_path, "web")
    assert (pipeline.schedule is None) == (schedule == "none")
    assert ("time" in pipeline.records.columns) == (line is not None and "2026" in line)
    assert "clusters/near.yaml" in done.output
    text = (tmp_path / "pipelines" / "web.yaml").read_text()
    named = re.findall(r"\.\./(schema/[\w.]+)", text)
    assert len(named) == 2
    assert all((tmp_path / name).is_file() for name in named)


@pytest.mark.parametrize(
    ("line", "codec", "mark", "encoding"),
    [
        (CLF, "utf-16", b"", "UTF-16"),
        (TIMED, "utf-16-be", b"", "UTF-16BE"),
        (CLF, "utf-32", b"", "UTF-32"),
        (TIMED, "utf-8", b"\xef\xbb\xbf", "UTF-8"),
    ],
)
def test_a_sample_in_another_encoding_is_read_in_it(tmp_path, line, codec, mark, encoding):
    sample = tmp_path / "a.log"
    sample.write_bytes(mark + (line * 20).encode(codec))
    flags = [*FLAGS, "--schedule", "none", "--sample", str(sample)]
    CliRunner().invoke(app, ["new", "web", "--config", str(tmp_path), *flags])
    pipeline = load_pipeline_alone(tmp_path, "web")
    assert pipeline.source.encoding == encoding
    assert pipeline.source.format == ("text" if line == CLF else "jsonl")
    assert "time" in pipeline.records.columns


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["Web", *FLAGS], "is not a valid name of a pipeline"),
        (["web", *FLAGS[2:]], "^--source is missing"),
        (["web"], "^--source, --topic and --cluster are missing"),
        (["web", *FLAGS[2:], "--source", ""], "^--source is missing"),
        (["web", *FLAGS, "--schedule", "every hour"], "cron"),
        (["web", *FLAGS[:2], "--topic", "a b", *FLAGS[4:]], "topic"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_no_file(tmp_path, arguments, says):
    with pytest.raises(ShipperError, match=says):
        CliRunner().invoke(
            app, ["new", *arguments, "--config", str(tmp_path)], catch_exceptions=False
        )
    assert not (tmp_path / "pipelines" / "web.yaml").exists()


def test_a_file_that_is_there_is_left_alone(tmp_path):
    file = tmp_path / "pipelines" / "web.yaml"
    file.parent.mkdir()
    file.write_text("mine")
    with pytest.raises(UsageError, match="SHIP-103"):
        CliRunner().invoke(
            app, ["new", "web", *FLAGS, "--config", str(tmp_path)], catch_exceptions=False
        )
    assert file.read_text() == "mine"
