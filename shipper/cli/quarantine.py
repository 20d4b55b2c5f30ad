"""``shipper quarantine list``, ``show`` and ``replay``."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shipper import runner
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
from shipper.cli.open_ledger import OpenLedger, moment_text, open_ledgers, open_to_change
from shipper.config.pipeline import Pipeline
from shipper.driver.repaired import judges_lines
from shipper.driver.replay import InQuarantine, KeptValues, RecordPosition, Repaired, in_quarantine
from shipper.driver.replay import replay as send_repaired
from shipper.errors import StepResultError, UsageError
from shipper.ledger.quarantine import QuarantineHeaders, decode_headers
from shipper.ledger.records import ChunkValue
from shipper.report.markup import plural
from shipper.report.repaired import TO_JUDGE, RepairedRecord, RepairedResult
from shipper.report.run_folder import RunFolder
from shipper.runner import new_run_id
from shipper.terminal import visible
from shipper.types import HeadedRecord
from shipper.windows.window import Window

app = new_app("quarantine", "Records that could not be shipped: list, show, replay.")

_SHOWN = 40

ForReason = Annotated[str | None, typer.Option("--reason", help="Only records with this reason.")]
FromRun = Annotated[
    str | None, typer.Option("--run", help="Only records that this run sent to quarantine.")
]
OfFile = Annotated[
    str | None, typer.Option("--file", help="Only records of files whose path contains this text.")
]


class Shown(BaseModel):
    """A record in quarantine as `show --json` writes it and, repaired, `replay` reads it. Bytes
    that are no UTF-8 are in base64."""

    model_config = ConfigDict(extra="forbid")

    pipeline: str
    cluster: str
    file: str
    split: int = Field(ge=0)
    record: int = Field(ge=1)
    reason: str = ""
    run: str = ""
    at: str = ""
    replayed: str | None = None
    """The replay that sent it to its topic."""
    cut: bool = False
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
    """List the records in quarantine, by run, file and reason, and how many of them were replayed.
    Only the ledger is read."""
    documents = {}
    for ledger in open_ledgers(config, pipeline, cluster):
        rows = [
            row
            for row in _rows(in_quarantine(ledger.read()))
            if reason in (None, *row.reasons)
            and run in (None, row.run)
            and (file or "") in row.file
        ]
        documents[ledger.cluster.name] = [dataclasses.asdict(row) for row in rows]
        if not as_json:
            _print_rows(ledger, rows)
    if as_json:
        print_json(documents)


@dataclass
class QuarantineRow:
    """Records that one run quarantined of one file; an object of `list --json`."""

    run: str
    file: str
    reasons: dict[str, int] = field(default_factory=dict)
    records: int = 0
    replayed: int = 0
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
    for key in found.replays:
        place = RecordPosition(key.split.file.path, key.split.start, key.first + 1)
        if quarantined := found.find(place):
            rows[quarantined.value.run_id, quarantined.key.split.file.path].replayed += 1
    return [rows[group] for group in sorted(rows)]


def _print_rows(ledger: OpenLedger, rows: list[QuarantineRow]) -> None:
    total, replayed = sum(row.records for row in rows), sum(row.replayed for row in rows)
    out.print(
        f"{ledger.pipeline.name} on {ledger.cluster.name}: {plural(total, 'record')} in "
        f"quarantine, {replayed:,} of them replayed"
    )
    for row in rows[:_SHOWN]:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in row.reasons.items())
        after = f" ({row.replayed:,} replayed)" if row.replayed else ""
        out.say(f"  {reasons}{after}: {row.file}, run {row.run}, in {', '.join(row.topics)}")
    out.say_more(len(rows), _SHOWN, "--run, --file and --reason choose, --json lists all")


@app.command(
    epilog="Examples: `shipper quarantine show web_access --reason unparseable` · `shipper "
    "quarantine show web_access --json > bad.jsonl`, then repair `value`, and `shipper "
    "quarantine replay web_access bad.jsonl`"
)
def show(
    pipeline: PipelineName,
    cluster: ClusterName = None,
    reason: ForReason = None,
    run: FromRun = None,
    file: OfFile = None,
    replayed: Annotated[
        bool, typer.Option("--replayed", help="Also records that were replayed.")
    ] = False,
    config: Config = Path("config"),
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object per line, for `replay`.")
    ] = False,
) -> None:
    """Show the records: the reason, the origin, and the kept part of each. The quarantine topic is
    read, so expired records are missing.

    Exit code 1 if values in the topic differ from the values that shipper sent, by the ledger's
    checksums.
    """
    forged = False
    for ledger in open_ledgers(config, pipeline, cluster):
        count, kept = 0, KeptValues()
        for shown in _shown(ledger, kept):
            wanted = (
                reason in (None, shown.reason)
                and run in (None, shown.run)
                and (file or "") in shown.file
            )
            if not wanted or (shown.replayed and not replayed):
                continue
            count += 1
            if as_json:
                print_json(shown.model_dump(exclude_none=True), indent=None)
            elif count <= _SHOWN:
                _print_record(shown)
        text = f"{plural(count, 'record')} of {pipeline} in quarantine on {ledger.cluster.name}"
        text += "; --json shows all" if count > _SHOWN and not as_json else ""
        err.say(text)
        for sentence in kept.wrong():
            forged = True
            err.say(f"{ledger.cluster.name}: {sentence}", "red")
    raise typer.Exit(1 if forged else 0)


def _shown(ledger: OpenLedger, kept: KeptValues) -> Iterator[Shown]:
    """Yield every record in quarantine that counts; records of a file that was re-shipped since are
    in the topic, but do not count."""
    known, topics = in_quarantine(ledger.read()), ledger.client.topics()
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
                    yield _as_shown(ledger, place, record, headers, known.replay_of(place))


def _as_shown(
    ledger: OpenLedger,
    place: RecordPosition,
    record: HeadedRecord,
    headers: QuarantineHeaders,
    replay: ChunkValue | None,
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
        replayed=replay.run_id if replay else None,
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
    after = f", replayed by {shown.replayed}" if shown.replayed else ""
    out.say(f"{shown.reason}: {shown.place}{to}; run {shown.run}, {shown.at}{after}", "bold")
    value = (
        shown.value if shown.value_base64 is None else base64.b64decode(shown.value_base64).hex(" ")
    )
    out.say(f"  {visible(value or '')}" + (" …" if shown.cut and value else ""))


@app.command(
    epilog="Example: `shipper quarantine replay web_access repaired.jsonl`; again: all skipped"
)
def replay(
    pipeline: PipelineName,
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON lines as `show --json` writes them, with repaired `value` and `topic`; "
            "`-` reads standard input."
        ),
    ],
    cluster: ClusterName = None,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Send repaired records to their topic, each exactly once. A value that was sent before is
    skipped, and another value is sent as a correction.

    A line's `value` (or `value_base64`) goes to `topic`, with `key`, `headers` and `timestamp_ms`
    if given, redacted as the pipeline says. If a record would go to quarantine again, or is `cut`,
    nothing is sent. Leave lines of records that are to stay in quarantine out of the file. Needs
    the lease, so no ship may be under way.
    """
    ledger = open_to_change(config, pipeline, cluster)
    wanted = _judged(
        config, ledger.pipeline, list(_repaired(file, ledger.pipeline, ledger.cluster.name))
    )

    done = send_repaired(
        ledger.log,
        ledger.client,
        ledger.cluster,
        ledger.pipeline,
        wanted,
        f"replay-{new_run_id()}",
        err.say,
    )
    for place, earlier in done.skipped.items():
        err.say(f"skipped: {place} was sent by {earlier}, with the same value")
    for place, earlier in done.corrected.items():
        err.say(
            f"corrected: {place} differs from what {earlier} sent; consumers have both", "yellow"
        )
    if as_json:
        skipped, corrected = (
            [{**dataclasses.asdict(place), "replayed": earlier} for place, earlier in found.items()]
            for found in (done.skipped, done.corrected)
        )
        print_json(
            {
                "sent": [dataclasses.asdict(place) for place in done.sent],
                "corrected": corrected,
                "skipped": skipped,
            }
        )
    else:
        corrections = f" ({len(done.corrected):,} of them as corrections)" if done.corrected else ""
        out.print(
            f"{plural(len(done.sent), 'record')} sent{corrections}; "
            f"{len(done.skipped):,} sent before"
        )


def _judged(config: Path, pipeline: Pipeline, wanted: list[Repaired]) -> list[Repaired]:
    """Return the records as they may leave. Raises UsageError if one would go to quarantine
    again."""
    if not wanted or not (pipeline.records.redact or judges_lines(pipeline)):
        return wanted
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    window = Window(now - dt.timedelta(hours=1), now)
    with tempfile.TemporaryDirectory(prefix="shipper-repaired-") as temporary:
        steps = (runner.REPAIRED,)
        job = runner.Job(
            pipeline,
            config,
            window.start,
            window.end,
            new_run_id(),
            steps,
            runs_uri=temporary,
            source_only=True,
            brief=True,
        )
        folder = RunFolder(temporary, pipeline.key, window.start, window.end, job.run_id)
        records = [
            RepairedRecord(
                file=each.place.file, split=each.place.split, record=each.place.record,
                value=each.value, key=each.key, headers=list(each.headers),
            )
            for each in wanted
        ]  # fmt: skip
        asked = RepairedResult(
            pipeline=pipeline.name,
            window_start=window.start,
            window_end=window.end,
            run_id=job.run_id,
            started_at=now,
            finished_at=now,
            records=records,
        )
        folder.write_text(TO_JUDGE, asked.model_dump_json())
        code = runner.run_job(job, stdout=sys.stderr.buffer)
        result = folder.find(runner.REPAIRED, RepairedResult)
    if result is None or result.error:
        raise StepResultError(
            (result and result.error)
            or (
                f"pipeline {pipeline.name}: the repaired records could not be judged: the step "
                f"{runner.how_it_ended(code)}. Nothing was sent. Its last lines above say why. "
                "Run the same command again."
            )
        )
    refused = [
        f"{each.place}: {record.why}"
        for each, record in zip(wanted, result.records, strict=True)
        if record.why
    ]
    if refused:
        more = f"; and {len(refused) - _SHOWN:,} more" if len(refused) > _SHOWN else ""
        raise UsageError(
            f"pipeline {pipeline.name}: {len(refused):,} of {plural(len(wanted), 'record')} "
            f"cannot be sent as they are: {'; '.join(refused[:_SHOWN])}{more}. Nothing was "
            "sent. All of them stay in quarantine. Repair `value`, or leave these lines out, "
            "and run the same command again.",
            code="SHIP-111",
        )
    return [
        dataclasses.replace(each, value=record.value, key=record.key, headers=tuple(record.headers))
        for each, record in zip(wanted, result.records, strict=True)
    ]


def _repaired(file: Path, pipeline: Pipeline, cluster: str) -> Iterator[Repaired]:
    """Read repaired records. Raises UsageError for the first line that cannot be sent, and names
    it."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.", code="SHIP-104") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield _checked(Shown.model_validate_json(line), pipeline, cluster)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise UsageError(
                f"{file}:{number}: {field + ': ' if field else ''}{first['msg']}. "
                "Nothing was sent. Correct the line.",
                code="SHIP-111",
            ) from error
        except ValueError as error:
            raise UsageError(
                f"{file}:{number}: {error}. Nothing was sent.", code="SHIP-111"
            ) from error


def _checked(shown: Shown, pipeline: Pipeline, cluster: str) -> Repaired:
    """Check a record. Raises ValueError."""
    for name, given, ours in (
        ("pipeline", shown.pipeline, pipeline.key),
        ("cluster", shown.cluster, cluster),
    ):
        if given != ours:
            raise ValueError(f"belongs to {name} {given}, not to {ours}")
    if shown.topic is None:
        raise ValueError("`topic` is missing. Name the topic of the record")
    if not {"value", "value_base64"} & shown.model_fields_set:
        raise ValueError(
            "`value` is missing. Write the value to send, or null for a record without a value"
        )
    if shown.cut:
        raise ValueError(
            f"`cut`: only a part of {shown.place} is here. Write the whole value, with its key "
            "and headers, and remove `cut`"
        )
    if pipeline.records.avro is not None and shown.value is not None:
        raise ValueError(
            "`value`: this pipeline's values are Avro, not text. Write the bytes, with the "
            "schema's number in front, into `value_base64`. Or repair the file and run its "
            "window again"
        )
    value, key = (
        _bytes("value", shown.value, shown.value_base64),
        _bytes("key", shown.key, shown.key_base64),
    )
    texts, encoded = shown.headers or {}, shown.headers_base64 or {}
    headers = [
        (name, _bytes(f"headers.{name}", texts.get(name), encoded.get(name)) or b"")
        for name in texts | encoded
    ]
    return Repaired(shown.place, shown.topic, value, key, tuple(headers), shown.timestamp_ms)


def _bytes(name: str, text: str | None, encoded: str | None) -> bytes | None:
    if text is not None and encoded is not None:
        raise ValueError(f"`{name}` and `{name}_base64` contradict each other; leave one")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    return None if text is None else text.encode()
