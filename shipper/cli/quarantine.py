"""``shipper quarantine list``, ``show`` and ``export``."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from pydantic import BaseModel

from shipper.cli.console import (
    ClusterName,
    Config,
    Json,
    PipelineName,
    err,
    new_app,
    out,
    print_json,
)
from shipper.cli.open_ledger import OpenLedger, moment_text, open_ledgers, open_one
from shipper.config.record_mapping import QUARANTINE_REASONS
from shipper.config.rules import suggestion
from shipper.config.units import plural
from shipper.driver.dispositions import quarantine_checks
from shipper.errors import UsageError
from shipper.ledger.quarantine_headers import QuarantineHeaders, decode_headers
from shipper.ledger.quarantined import InQuarantine, KeptValues, RecordPosition, in_quarantine
from shipper.terminal import visible
from shipper.types import HeadedRecord
from shipper.whole_files import output_file

app = new_app("quarantine", "Records that could not be shipped: list, show, export.")

_SHOWN = 40

ForReason = Annotated[str | None, typer.Option("--reason", help="Only records with this reason.")]
FromRun = Annotated[
    str | None, typer.Option("--run", help="Only records that this run sent to quarantine.")
]
OfFile = Annotated[
    str | None, typer.Option("--file", help="Only records of files whose path contains this text.")
]


class _Filter(NamedTuple):
    """Filter by the options of the commands; None takes all."""

    reason: str | None
    run: str | None
    file: str | None

    def takes(self, reasons: Collection[str], run: str, file: str) -> bool:
        return (
            (self.reason is None or self.reason in reasons)
            and self.run in (None, run)
            and (self.file or "") in file
        )


class Shown(BaseModel):
    """A record in quarantine, as `show --json` and `export` write it. Bytes that are not UTF-8 are
    in base64, under another name."""

    pipeline: str
    cluster: str
    file: str
    split: int
    record: int
    reason: str
    run: str
    at: str
    cut: bool
    """True if the record had more than is kept of it: the whole value, its key or its headers."""
    topic: str | None = None
    value: str | None = None
    value_base64: str | None = None
    key: str | None = None
    key_base64: str | None = None
    headers: dict[str, str] | None = None
    headers_base64: dict[str, str] | None = None
    timestamp_ms: int | None = None
    """Milliseconds since 1970; none: the producer's time."""

    @property
    def place(self) -> RecordPosition:
        return RecordPosition(self.file, self.split, self.record)

    @property
    def json_line(self) -> str:
        return self.model_dump_json(exclude_none=True, ensure_ascii=True)


@app.command(
    name="list",
    epilog="Examples: `shipper quarantine list web_access` · `shipper quarantine list web_access "
    "--reason too_large`",
)
def list_(
    pipeline: PipelineName,
    cluster: ClusterName = None,
    reason: ForReason = None,
    run: FromRun = None,
    file: OfFile = None,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """List the records in quarantine, by run, file and reason. Only the ledger is read."""
    documents, wanted = {}, _Filter(reason, run, file)
    for ledger, found in _read(open_ledgers(config, pipeline, cluster), reason):
        rows = [row for row in _rows(found) if wanted.takes(row.reasons, row.run, row.file)]
        documents[ledger.cluster.name] = [dataclasses.asdict(row) for row in rows]
        if not as_json:
            _print_rows(ledger, rows)
    if as_json:
        print_json(documents)


def _read(
    ledgers: Iterable[OpenLedger], reason: str | None
) -> list[tuple[OpenLedger, InQuarantine]]:
    """Return what is in quarantine on each cluster. Raises UsageError for a reason that no record
    can have."""
    read = [(ledger, in_quarantine(ledger.read())) for ledger in ledgers]
    known = dict.fromkeys(QUARANTINE_REASONS)
    for ledger, found in read:
        known |= dict.fromkeys(quarantine_checks(ledger.pipeline))
        for chunk in found.chunks:
            known |= dict.fromkeys(chunk.value.reasons or ())
    if reason is not None and reason not in known:
        hint = suggestion(reason, known, "reasons")
        raise UsageError(f"--reason {reason}: no record is in quarantine for that reason{hint}.")
    return read


@dataclass
class QuarantineRow:
    """Records that one run quarantined of one file; an object of `list --json`."""

    run: str
    file: str
    reasons: dict[str, int] = field(default_factory=dict)
    records: int = 0
    topics: list[str] = field(default_factory=list)


def _rows(found: InQuarantine) -> list[QuarantineRow]:
    """Return rows by run, then by file."""
    rows: dict[tuple[str, str], QuarantineRow] = {}
    for chunk in found.chunks:
        group = chunk.value.run_id, chunk.key.split.file.path
        row = rows.setdefault(group, QuarantineRow(*group))
        for reason, count in (chunk.value.reasons or {}).items():
            row.reasons[reason] = row.reasons.get(reason, 0) + count
            row.records += count
        row.topics = sorted({*row.topics, chunk.key.topic})
    return [rows[group] for group in sorted(rows)]


def _print_rows(ledger: OpenLedger, rows: list[QuarantineRow]) -> None:
    total = plural(sum(row.records for row in rows), "record")
    out.print(f"{ledger.pipeline.name} on {ledger.cluster.name}: {total} in quarantine")
    for row in rows[:_SHOWN]:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in row.reasons.items())
        out.say(f"  {reasons}: {row.file}, run {row.run}, in {', '.join(row.topics)}")
    out.say_more(len(rows), _SHOWN, "--run, --file and --reason choose, --json lists all")


@app.command(
    epilog="Examples: `shipper quarantine show web_access --reason unparseable` · `shipper "
    "quarantine show web_access --json`"
)
def show(
    pipeline: PipelineName,
    cluster: ClusterName = None,
    reason: ForReason = None,
    run: FromRun = None,
    file: OfFile = None,
    config: Config = Path("config"),
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per line.")] = False,
) -> None:
    """Show the records: the reason, the origin, and the kept part of each. The quarantine topic is
    read, so expired records are missing.

    Exit code 1 if values in the topic differ from the values that shipper sent, by the ledger's
    checksums.
    """
    forged, wanted = False, _Filter(reason, run, file)
    for ledger, known in _read(open_ledgers(config, pipeline, cluster), reason):
        count, kept = 0, KeptValues()
        for count, shown in enumerate(_shown(ledger, known, kept, wanted), 1):
            if as_json:
                print(shown.json_line)
            elif count <= _SHOWN:
                _print_record(shown)
        text = f"{plural(count, 'record')} of {pipeline} in quarantine on {ledger.cluster.name}"
        text += "; --json shows all" if count > _SHOWN and not as_json else ""
        err.say(text)
        forged |= _warns_of_forgery(ledger, kept)
    raise typer.Exit(1 if forged else 0)


@app.command(
    epilog="Example: `shipper quarantine export web_access --to corrected/monday.jsonl`; then "
    "correct the file, and ship it by a pipeline of its own"
)
def export(
    pipeline: PipelineName,
    to: Annotated[Path, typer.Option("--to", help="File to write: one JSON object per record.")],
    cluster: ClusterName = None,
    reason: ForReason = None,
    run: FromRun = None,
    file: OfFile = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    config: Config = Path("config"),
) -> None:
    """Write the records to a file, to correct and ship them. The objects are those of `show
    --json`.

    Exit code 1 if values in the topic differ from the values that shipper sent, by the ledger's
    checksums. The file is written then, too.
    """
    [(ledger, known)] = _read([open_one(config, pipeline, cluster)], reason)
    kept, count = KeptValues(), 0
    with output_file(to, force=force) as part, part.open("w", encoding="ascii") as lines:
        for shown in _shown(ledger, known, kept, _Filter(reason, run, file)):
            lines.write(shown.json_line + "\n")
            count += 1
    out.say(f"{plural(count, 'record')} of {pipeline} on {ledger.cluster.name} written to {to}")
    raise typer.Exit(1 if _warns_of_forgery(ledger, kept) else 0)


def _warns_of_forgery(ledger: OpenLedger, kept: KeptValues) -> bool:
    """Print a warning for each chunk whose values are not those that were sent; return True if
    there is one."""
    wrong = kept.wrong()
    for sentence in wrong:
        err.say(f"{ledger.cluster.name}: {sentence}", "red")
    return bool(wrong)


def _shown(
    ledger: OpenLedger, known: InQuarantine, kept: KeptValues, wanted: _Filter
) -> Iterator[Shown]:
    """Yield the wanted records in quarantine that count; records of a file that was re-shipped
    since are in the topic, but do not count. ``kept`` gets every record."""
    topics = ledger.client.topics()
    for topic in known.topics:
        for records in ledger.client.headed(topic) if topic in topics else ():
            for record in records:
                headers = decode_headers(record.headers)
                if headers is None or headers.pipeline != ledger.pipeline.key:
                    continue
                place = RecordPosition(headers.file, headers.split, headers.record)
                chunk = known.find(place)
                if chunk and chunk.value.run_id == headers.run:
                    kept.add(chunk, place, record.value)
                    if wanted.takes((headers.reason,), headers.run, headers.file):
                        yield _as_shown(ledger, place, record, headers)


def _as_shown(
    ledger: OpenLedger, place: RecordPosition, record: HeadedRecord, headers: QuarantineHeaders
) -> Shown:
    return Shown(
        pipeline=headers.pipeline,
        cluster=ledger.cluster.name,
        file=place.file,
        split=place.split,
        record=place.record,
        reason=headers.reason,
        run=headers.run,
        at=moment_text(record.timestamp_ms),
        cut=headers.cut,
        topic=headers.topic,
        timestamp_ms=headers.timestamp_ms,
        value=_text(record.value),
        value_base64=_base64(record.value),
        key=_text(headers.key),
        key_base64=_base64(headers.key),
        headers={name: text for name, value in headers.own if (text := _text(value)) is not None}
        or None,
        headers_base64={
            name: text for name, value in headers.own if (text := _base64(value)) is not None
        }
        or None,
    )


def _text(value: bytes | None) -> str | None:
    """Return the text; None for bytes that are not UTF-8."""
    with suppress(UnicodeDecodeError):
        return None if value is None else value.decode()
    return None


def _base64(value: bytes | None) -> str | None:
    """Return base64; None for bytes that are UTF-8."""
    return None if value is None or _text(value) is not None else base64.b64encode(value).decode()


def _print_record(shown: Shown) -> None:
    to = f", for topic {shown.topic}" if shown.topic else ""
    out.say(f"{shown.reason}: {shown.place}{to}; run {shown.run}, {shown.at}", "bold")
    value = (
        shown.value if shown.value_base64 is None else base64.b64decode(shown.value_base64).hex(" ")
    )
    out.say(f"  {visible(value or '')}" + (" …" if shown.cut and value else ""))
