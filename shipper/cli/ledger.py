"""``shipper ledger show``, ``verify``, ``repair`` and ``archive``."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from shipper import runtime
from shipper.cli import expired
from shipper.cli.console import (
    ClusterName,
    Config,
    Json,
    PipelineName,
    err,
    new_app,
    out,
    print_json,
    table,
)
from shipper.cli.open_ledger import (
    OpenLedger,
    moment_or_age,
    moment_text,
    of_each_ledger,
    open_to_change,
)
from shipper.cli.run_options import asked_window
from shipper.cli.topic_state import PresentEntries
from shipper.config.load import load_pipeline
from shipper.config.rules import original, resolve_uri
from shipper.config.units import format_bytes, number, plural
from shipper.errors import LedgerGone, UsageError, WindowError, repair_command
from shipper.finding import Finding, fail
from shipper.ledger.archive import archive as move_to_archive
from shipper.ledger.fold import LedgerRecords
from shipper.ledger.inventory import (
    Inventory,
    Tally,
    absent_topics,
    differences,
    entries,
    findings,
)
from shipper.ledger.records import Alias, ChunkValue, Entry
from shipper.ledger.repair import damage
from shipper.ledger.repair import repair as mend
from shipper.runner import new_run_id
from shipper.types import PartitionOffset
from shipper.windows.expression import FORMS
from shipper.windows.window import Window, parse_window

app = new_app(
    "ledger",
    "What a cluster's ledger says about a pipeline: show, verify, repair, archive.",
)

_SHOWN = 40
#: Severity → word and colour. What a killed run left is unfinished, and what retention deleted has
#: expired.
_WORDS = {"fail": ("wrong", "red"), "warn": ("unfinished", "yellow"), "ok": ("expired", None)}
_IN_MEMORY_BYTES = 16_000_000


@app.command(
    epilog="Examples: `shipper ledger show web_access --cluster frankfurt --files --window "
    "2026-11-01T06:00/2026-11-01T07:00` · `shipper ledger show web_access --json | jq "
    ".frankfurt.chunks`"
)
def show(
    pipeline: PipelineName,
    cluster: ClusterName = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help=f"Only windows that lie in this one: {FORMS}."),
    ] = None,
    files: Annotated[
        bool, typer.Option("--files", help="A line for each file instead of each window.")
    ] = False,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Show the ledger's contents, by window or file, the last run that shipped, and the holder of
    the lease. --json also lists each chunk, one line each, archived and invalidated ones
    included."""
    wanted = asked_window(load_pipeline(config, original(pipeline)), window) if window else None

    def is_wanted(value: ChunkValue | Alias) -> bool:
        return wanted is None or _lies_in(value.window, wanted)

    # A million chunks are not held in memory, and an error leaves no half a document.
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, "w+", encoding="ascii") as documents:

        def show_one(ledger: OpenLedger) -> None:
            read = ledger.read()
            inventory, present = Inventory(), PresentEntries(ledger)
            for of_path in present.of(read):
                inventory.add(
                    of_path.chosen(lambda entry: is_wanted(entry.value), is_wanted),
                    ledger.pipeline.key,
                )
            document = _document(ledger, read, inventory, files=files)
            document["gone"] = _why_gone(ledger)
            if as_json:
                shown = chain.from_iterable(entries(read))
                rows = (_chunk(entry) for entry in shown if is_wanted(entry.value))
                _write_member(documents, ledger.cluster.name, document, rows)
                return
            out.say(f"{pipeline} on {ledger.cluster.name}: ledger {ledger.log.topic}", "bold")
            _print_inventory(document)
            for finding in present.findings():
                err.say(finding.full, "red")
            if document["gone"]:
                err.say(document["gone"], "red")

        of_each_ledger(config, pipeline, cluster, show_one)
        if as_json:
            documents.write("}\n" if documents.tell() else "{}\n")
            documents.seek(0)
            shutil.copyfileobj(documents, sys.stdout)


def _why_gone(ledger: OpenLedger) -> str | None:
    """Return why this is not the ledger with which the pipeline has shipped; None if it is."""
    try:
        ledger.check_identity()
    except LedgerGone as gone:
        return gone.message
    return None


def _lies_in(text: str, window: Window) -> bool:
    try:
        found = parse_window(text)
    except WindowError:
        return False
    return window.start <= found.start and found.end <= window.end


def _write_member(
    target: IO[str], name: str, document: dict[str, Any], chunks: Iterator[dict[str, Any]]
) -> None:
    """Write one member of the JSON object in ``target``: ``document`` with ``chunks``, each in a
    line of its own."""
    begin = "," if target.tell() else "{"
    target.write(f'{begin}\n{json.dumps(name)}: {json.dumps(document)[:-1]}, "chunks": [')
    for index, chunk in enumerate(chunks):
        target.write(f"{',' if index else ''}\n{json.dumps(chunk)}")
    target.write("\n]}")


def _chunk(entry: Entry) -> dict[str, Any]:
    file, value = entry.key.split.file, entry.value
    return {
        "path": file.path,
        "size_bytes": file.size_bytes,
        "modified_ms": file.modified_ms,
        "split": entry.key.split.start,
        "first": entry.key.first,
        "topic": entry.key.topic,
        **dataclasses.asdict(value),
        "invalidated": entry.invalidated,
        "archived": entry.archived,
        "offset": entry.offset,
        "written_at": moment_text(entry.timestamp_ms),
    }


def _document(
    ledger: OpenLedger, read: LedgerRecords, inventory: Inventory, *, files: bool
) -> dict[str, Any]:
    control, archived, snapshot = read.control, read.files.archived(), ledger.log.snapshot()
    latest = control.generations.get(control.generation)
    document: dict[str, Any] = {
        "topic": ledger.log.topic,
        "generation": control.generation,
        "run_id": latest.run_id if latest else None,
        "leases": [
            {**dataclasses.asdict(each.lease), "renewed_at": moment_text(each.renewed_ms)}
            for each in control.claims()
        ],
        "identity": dataclasses.asdict(control.identity) if control.identity else None,
        "archive": dataclasses.asdict(archived) if archived else None,
        "snapshot": {"records": snapshot.records, "chunks_end": snapshot.chunks_end}
        if snapshot
        else None,
        "chunks_end": read.chunks_end,
        "windows": {window: _tally(tally) for window, tally in sorted(inventory.windows.items())},
    }
    if files:
        document["files"] = [
            {**file._asdict(), **_tally(tally)} for file, tally in sorted(inventory.files.items())
        ]
    return document


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        "chunks": tally.chunks,
        "records": tally.records,
        "bytes": tally.bytes,
        "filtered": tally.filtered.total(),
        "quarantined": tally.reasons.total(),
        "archived": tally.archived,
        "generation": tally.generation,
        "run_id": tally.run_id,
        "files": tally.files,
        "complete": tally.complete,
    }


def _print_inventory(document: dict[str, Any]) -> None:
    run_id, identity = document["run_id"], document["identity"]
    out.print(f"generation {document['generation']} of run {run_id}" if run_id else "never shipped")
    if identity:
        out.say("begun by run {run_id} at {at} in place of {instead_of}".format(**identity))
    for lease in document["leases"]:
        verb = "holds the lease" if lease["held"] else "waits for the lease"
        out.say(
            f"run {lease['run_id']} on {lease['host']} (process {lease['pid']}) {verb}; renewed "
            f"{lease['renewed_at']}, lapses after {lease['seconds']:g} s"
        )
    snapshot, archived = document["snapshot"], document["archive"]
    tail = f"snapshot of {plural(snapshot['records'], 'record')}" if snapshot else "no snapshot"
    if archived:
        tail += f", {archived['entries']:,} in the archive (windows until {archived['before']})"
    out.print(tail)
    rows = [{"window": name, **of} for name, of in reversed(document["windows"].items())]
    head, figures = "window", ["files", "complete", "records", "bytes", "chunks", "archived"]
    if "files" in document:
        rows, head, figures = document["files"], "path", figures[1:]
    shown = table(head, *(f">{name}" for name in figures), "last run")
    for row in rows[:_SHOWN]:
        counts = (
            format_bytes(row[name]) if name == "bytes" else f"{row[name]:,}" for name in figures
        )
        shown.add_row(row[head], *counts, row["run_id"])
    out.show(shown)
    out.say_more(len(rows), _SHOWN, "--window chooses, --json lists all")


@app.command(
    epilog="Example: `shipper ledger verify web_access` · in a script: `shipper ledger verify "
    "web_access --json | jq .`"
)
def verify(
    pipeline: PipelineName,
    cluster: ClusterName = None,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Check the ledger against itself, its snapshot, its archive and the topics. Exit code 1 if
    something is wrong.

    Wrong are: records that shipper did not write or that cannot be right (`shipper ledger repair`),
    overlapping chunks, counts or ends that contradict each other, a file of which other bytes were
    read than it has, a file shipped under several transforms, a snapshot that differs from the
    topic, a topic that was deleted or created again after records were delivered to it, and a
    ledger that was recreated. An unfinished file is shown, and is not wrong: its window's next run
    ships the rest. Expired records are shown, and are not wrong either. They are known only for
    ships whose delivery gate reads back.
    """
    documents = dict[str, dict[str, Any]]()

    def verify_one(ledger: OpenLedger) -> None:
        read, found = _verified(ledger, resolve_uri(config, ledger.pipeline.runs_uri))
        documents[ledger.cluster.name] = {
            "chunks_end": read.chunks_end,
            "snapshot": ledger.log.snapshot() is not None,
            "findings": [dataclasses.asdict(finding) for finding in found],
        }
        if not as_json:
            _print_findings(ledger, found)

    of_each_ledger(config, pipeline, cluster, verify_one)
    if as_json:
        print_json(documents)
    told = (finding for document in documents.values() for finding in document["findings"])
    raise typer.Exit(1 if any(finding["severity"] == "fail" for finding in told) else 0)


def _verified(ledger: OpenLedger, runs_uri: str) -> tuple[LedgerRecords, list[Finding]]:
    topics, named = ledger.client.topics(), (ledger.pipeline.name, ledger.cluster.name)
    damaged = damage(ledger.log)
    found = [
        fail(
            f"{one.why}. Each run that reads the record stops",
            f"to repair it, run {repair_command(*named, str(one.place))}",
            code="damage",
            subject=f"partition:offset {one.place}",
        )
        for one in damaged
    ]
    if gone := _why_gone(ledger):
        found.append(fail(gone, code="ledger", subject=ledger.log.topic))
    if damaged:
        ledger.log = ledger.log.ignoring(one.place for one in damaged)
    read = ledger.read(wait_seconds=60)
    absent: dict[Finding, None] = {}
    present = PresentEntries(ledger)
    for of_path in present.of(read):
        found += findings(of_path, ledger.split_starts)
        absent.update(dict.fromkeys(absent_topics(of_path, topics.get)))
    found += absent
    found += present.findings()
    sent_to = [topic for topic in _sent_to(present) if topic in topics]
    with runtime.ThreadPoolExecutor(16, thread_name_prefix="offsets") as pool:
        logs = dict(zip(sent_to, pool.map(ledger.client.log_facts, sent_to), strict=True))
    ends_before = expired.by_results(runs_uri, ledger.pipeline.key, ledger.cluster.name)
    found += expired.findings(expired.expired(present.sent, logs, ends_before), logs)
    if ledger.log.snapshot() is not None:
        found += differences(read, ledger.log.records_of_topic(wait_seconds=60))
    return read, found


def _sent_to(present: PresentEntries) -> set[str]:
    return {topic for places in present.sent.values() for topic, _ in places}


def _print_findings(ledger: OpenLedger, found: list[Finding]) -> None:
    by = {each: [one for one in found if one.severity == each] for each in _WORDS}
    for one in [one for some in by.values() for one in some][:_SHOWN]:
        word, style = _WORDS[one.severity]
        err.say(f"{word}  {one.subject}: {one.full}", style)
    err.say_more(len(found), _SHOWN, "--json lists all")
    snapshot = "" if ledger.log.snapshot() else "; there is no snapshot to compare with"
    mark, style = ("✗", "red") if by["fail"] else ("✓", "green")
    counts = f"{len(by['fail'])} wrong, {len(by['warn'])} unfinished{snapshot}"
    out.say(f"{mark} {ledger.pipeline.name} on {ledger.cluster.name}: {counts}", style)


@app.command(
    epilog="Example: `shipper ledger repair web_access --cluster frankfurt --record 1:4711`"
)
def repair(
    pipeline: PipelineName,
    record: Annotated[
        str,
        typer.Option(
            "--record", help="PARTITION:OFFSET of the damaged record, as `verify` shows it."
        ),
    ],
    cluster: ClusterName = None,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help=(
                "Repair the record even if the value that it replaced cannot be found, and is lost."
            ),
        ),
    ] = False,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Repair one damaged record of the ledger: write after it what its key said before, or a
    tombstone.

    Only records that `verify` calls damaged can be repaired. Needs the lease, so no ship may be
    under way.
    """
    found = re.fullmatch(r"(\d{1,9}):(\d{1,19})", record, re.ASCII)
    if found is None:
        raise UsageError(
            f"--record {record} is not a place in the ledger. Write PARTITION:OFFSET, for "
            f"example 1:4711, as `shipper ledger verify {pipeline}` shows it."
        )
    ledger = open_to_change(config, pipeline, cluster)
    place = PartitionOffset(int(found[1]), int(found[2]))
    run_id = f"repair-{new_run_id()}"
    done = mend(ledger.log, ledger.pipeline, place, run_id, forget=forget, say=err.say)
    if as_json:
        print_json(dataclasses.asdict(done))
    else:
        new = (
            "A tombstone was written after it: its key has no earlier value"
            if done.restored is None
            else f"The earlier value of its key, of offset {done.restored}, was written after it"
        )
        out.say(f"{done.place} of {ledger.log.topic} ({done.why}) is repaired. {new}.")


Before = Annotated[
    str,
    typer.Option("--before", help="A date, or an age: windows that ended by then are moved."),
]
Local = Annotated[
    bool,
    typer.Option(
        "--local",
        help="Allow a folder of this machine. Every machine that ships must then share it.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option("--yes", help="Allow --before in the future, which moves every window."),
]


@app.command(
    epilog="Examples: `shipper ledger archive web_access --before 90d` · `shipper ledger archive "
    "web_access --before 2026-08-01`"
)
def archive(
    pipeline: PipelineName,
    before: Before,
    cluster: ClusterName = None,
    local: Local = False,
    yes: Yes = False,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Move the ledger's records of old windows out of its topic, into files beside the runs.

    The archive stays part of the ledger: running an old window again still sends nothing twice. The
    archive cannot be made again, so `runs_uri` must be storage that lasts, and that every machine
    which plans or ships this pipeline can read. Needs the lease, so no ship may be under way.
    """
    ledger = open_to_change(config, pipeline, cluster)
    moment = moment_or_age(before, "--before")
    if "://" not in ledger.pipeline.runs_uri and not local:
        raise UsageError(
            f"`runs_uri: {ledger.pipeline.runs_uri}` of pipeline {pipeline} is a folder of "
            "this machine. The archive becomes a part of the ledger: if the folder is lost, "
            "the pipeline cannot ship any more. Nothing was changed. Name storage that lasts "
            "(s3a://…, hdfs://…), or confirm with --local that this folder lasts.",
            code="SHIP-109",
        )
    if moment > runtime.now() and not yes:
        raise UsageError(
            f"--before {before} lies in the future, so every record of the ledger of "
            f"{pipeline} would leave the topic. Nothing was changed. Confirm with --yes if you "
            "want that.",
            code="SHIP-109",
        )

    done = move_to_archive(
        ledger.log,
        ledger.pipeline,
        moment,
        f"archive-{new_run_id()}",
        err.say,
    )
    if as_json:
        print_json(dataclasses.asdict(done))
    else:
        text = (
            f"{plural(done.moved, 'ledger record')} of {plural(done.files, 'file')} moved. The "
            f"topic keeps {number(done.left)}, and the archive has {number(done.archived)}"
        )
        out.say(f"{text}{f', from {done.manifest} on' if done.manifest else ''}.")
