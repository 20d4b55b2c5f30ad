"""What `shipper ledger export` writes: to a program as it is, to a terminal so that nothing happens
to it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from shipper.cli import ledger as ledger_commands
from shipper.errors import UsageError
from shipper.ledger.codec import encode_chunk
from shipper.ledger.control import Control
from shipper.ledger.fold import FileRecords, LedgerRecords
from shipper.ledger.records import ChunkKey
from shipper.types import FileId, LogRecord, SplitId
from tests.samples.ledger import chunk_value

HOSTILE = "/logs/x\x1b]52;c;aGk=\x07\u202egol\x9b31m é.log"
VALUE = chunk_value(last=9, records=9, bytes=90)


class Output(io.StringIO):
    terminal = False

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Any:
    record = LogRecord(
        0, 0, *encode_chunk("web", ChunkKey(SplitId(FileId(HOSTILE, 9, 9), 0), 0, "t"), VALUE)
    )
    read = LedgerRecords(FileRecords("web").feed([record]), [], Control("web"), 0, 1)
    ledger = SimpleNamespace(read=lambda: read, cluster=SimpleNamespace(name="near"))
    monkeypatch.setattr(ledger_commands, "open_one", lambda *_: ledger)

    def export(kind: str, *, terminal: bool) -> str:
        output = Output(newline="")
        output.terminal = terminal
        monkeypatch.setattr("sys.stdout", output)
        ledger_commands.export("web", None, None, False, kind, Path(), as_json=False)  # type: ignore[arg-type]
        return output.getvalue()

    return export


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_file_name_does_nothing_to_a_terminal_and_a_program_gets_it_as_it_is(
    exported: Any, kind: str
) -> None:
    shown, written = exported(kind, terminal=True), exported(kind, terminal=False)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert len(shown.splitlines()) == (2 if kind == "csv" else 1)
    if kind == "csv":
        assert next(csv.DictReader(io.StringIO(written, newline="")))["path"] == HOSTILE
    else:
        assert json.loads(written)["path"] == json.loads(shown)["path"] == HOSTILE
        assert "é" in written


def test_an_export_replaces_no_file_unless_it_is_forced(exported: Any, tmp_path: Path) -> None:
    there = tmp_path / "here.yaml"
    there.write_text("cluster: here\n")
    arguments = ["export", "web", "--to", str(there), "--config", str(tmp_path)]
    with pytest.raises(UsageError, match="SHIP-103"):
        CliRunner().invoke(ledger_commands.app, arguments, catch_exceptions=False)
    assert there.read_text() == "cluster: here\n"
    CliRunner().invoke(ledger_commands.app, [*arguments, "--force"], catch_exceptions=False)
    assert json.loads(there.read_text())["path"] == HOSTILE
