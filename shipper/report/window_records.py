"""Records of windows: what each step of a run learned of a window on a cluster, as small files
beside the runs.

::

    {runs_uri}/{pipeline}/windows/2026-11-01/{window}~{since}~{run_id}~{step}~{written}[~cluster].json
    {runs_uri}/{pipeline}/windows/2026-10-01.json        all of a day that is too old to change

A file is written once, whole, and never again, so that runs at the same time need no lock. The
results that it comes from may be removed: the state of every window follows from the records alone
(:mod:`shipper.report.window_state`). The day is that on which the step ended.

Records are folded in the order of their looks. A worker's clock may be wrong, so a step that begins
reads which record was written last, and comes after it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from shipper import runtime
from shipper.finding import Finding
from shipper.ledger.incarnations import RecreatedTopic
from shipper.report.cluster_view import ClusterView
from shipper.report.coverage import lacking
from shipper.report.plan_result import PlanResult
from shipper.report.results import (
    DeliveryGateResult,
    GateResult,
    RunReport,
    ShipResult,
    Uncovered,
)
from shipper.report.run_folder import RunFolder, StepResult, names_in
from shipper.report.run_view import OTHER_WINDOWS, RunView, run_view
from shipper.whole_files import file_system, write_whole
from shipper.windows.window import Window

T = TypeVar("T")

_COVERED = (OTHER_WINDOWS, "left-out")
"""Codes of findings on files that are left: the looks of the runs say of which window, and until
when."""
_MOST_TOPICS = 50
"""Topics of one ship, those with the most records; the report has all of them."""
Step = Literal["begun", "plan", "gate_source", "ship", "gate_delivery", "report", "accepted"]
_ORDER = ("begun", "plan", "gate_source", "ship", "gate_delivery", "report", "accepted")
_WHOLE = "whole"
"""Step in the name of a report's file that holds all that its run learned."""
_STAMP, _MOMENT, _DAY = "%Y%m%dT%H%M%SZ", "%Y%m%dT%H%M%S%fZ", "%Y-%m-%d"
_AT_ONCE = 16
"""Parallel requests: on an object store each takes a round trip."""

log = logging.getLogger("shipper.history")


class SentRecords(BaseModel):
    """Figures of what a run sent to one cluster, in all of its attempts."""

    seconds: float
    records: int
    bytes: int
    """Uncompressed."""
    wire_bytes: int
    quarantined: int
    parked: int
    ledger: int
    """Entries that were ever written to the pipeline's ledger about chunks, when the ship began."""
    topics: list[dict[str, Any]] = []
    """Topic, records, bytes, quarantine and parked of each."""


class RunEnd(BaseModel):
    """End of a run on one cluster, by its report."""

    state: str
    cause: str = ""
    """Reason why it is not plainly shipped, in one paragraph."""
    began: dt.datetime
    files: int = 0
    """Number of the window's own files, without those that came late for others."""
    bytes: int = 0
    """Bytes of these files, as stored."""
    records: int = 0
    """Sent by this run."""
    there: int = 0
    """Records of the window that were on the cluster before."""
    sent: SentRecords | None = None
    """Records that were sent. None: no ship began."""


class WindowRecord(BaseModel):
    """Findings of one step of a run."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    window_start: dt.datetime
    window_end: dt.datetime
    step: Step
    at: dt.datetime
    """Place of the look among those of all runs (:attr:`StepResult.place`); of a delivery gate,
    that of its plan. Records are folded in this order."""
    finished: dt.datetime
    cluster: str = ""
    """Cluster that it is about; empty: all but ``others``."""
    others: tuple[str, ...] = ()
    """Clusters that the run was asked to leave alone."""
    start: dt.datetime | None = None
    """Begin of the stretch that was looked at; None: the step did not look, or at named files
    alone."""
    end: dt.datetime | None = None
    """End of that stretch, if the run looked before its window was over; None: the window's."""
    passed: bool = False
    """True if the delivery gate has passed."""
    asked: bool = True
    """False if nobody could ask the cluster what it holds of the whole window."""
    closed: bool | None = None
    """True if a check of the source gate did not hold; None: another step, or the gate could not be
    evaluated."""
    distrusted: bool = False
    """True if a check of the delivery gate did not hold."""
    uncovered: list[Uncovered] = []
    """Files that are not on the cluster, and folders that are empty, by tick."""
    late: dict[str, list[str]] = {}
    """START/END of an earlier tick → files of it that the run was to ship (plan)."""
    committed: dict[str, dt.datetime] = {}
    """START/END of a tick → commit time of its last record, by the ledger."""
    recreated: str = ""
    """Finding, if topics have lost delivered records, since they were deleted."""
    error: str = ""
    """Error of a step that failed."""
    final: bool = False
    """True if trying the failed step again, unchanged, cannot help."""
    fails_again: bool = False
    """True if later runs would fail likewise."""
    doubt: str = ""
    """Reason why a person should look at the run, although it passed (report)."""
    ended: RunEnd | None = None
    accepted: str = ""
    """Reason and name of the person who has said that nothing more will come of the windows."""

    @functools.cached_property
    def window(self) -> Window:
        return Window(self.window_start, self.window_end)

    @property
    def since(self) -> dt.datetime:
        """Begin of what the record is about."""
        return min(self.window_start, self.start or self.window_start)

    @property
    def until(self) -> dt.datetime:
        return self.end or self.window_end

    def is_about(self, cluster: str) -> bool:
        return self.cluster == cluster or (not self.cluster and cluster not in self.others)

    @property
    def order(self) -> tuple[dt.datetime, str, int]:
        return self.at, self.run_id, _ORDER.index(self.step)


_RECORDS = TypeAdapter(list[WindowRecord])
_DAYS = TypeAdapter(dict[str, list[WindowRecord]])


def records_of(result: StepResult) -> list[WindowRecord]:
    """Return what a step's result says of windows. None of a dry run."""
    others = result.asked.other_clusters
    if result.asked.plan_only:
        return []
    failed = result.status == "failed"
    step: Mapping[str, Any] = {
        "run_id": result.run_id,
        "window_start": result.window_start,
        "window_end": result.window_end,
        "step": result.step,
        "at": result.place,
        "finished": result.finished_at,
        "others": others,
        "error": (result.error or "") if failed else "",
        "final": failed and result.final,
        "fails_again": failed and result.fails_again,
    }
    match result:
        case PlanResult():
            return _of_plan(result, step)
        case DeliveryGateResult():
            return [_of_delivery_gate(result, step)]
        case GateResult():
            return [WindowRecord(**{**step, "step": "gate_source"}, closed=result.is_closed)]
        case ShipResult() if failed:
            lost = deleted_in_words(result.recreated)
            return [WindowRecord(**step, cluster=result.cluster, recreated=lost)]
        case RunReport():
            return _of_report(result, step)
    return []


def accept(runs_uri: str, pipeline: str, window: Window, *, why: str, who: str) -> None:
    """Note that a person accepts the windows in ``window`` as they are, on each cluster: nothing
    more will come. A later run that finds a file of them takes that back. Raises OSError."""
    now, last = runtime.now(), last_written(runs_uri, pipeline)
    said = " ".join(why.split())
    record = WindowRecord(
        run_id=f"accepted-{now:%Y%m%dT%H%M%S}-{runtime.token_hex(3)}",
        window_start=window.start,
        window_end=window.end,
        step="accepted",
        at=max(now, last + dt.timedelta(microseconds=1)) if last else now,
        finished=now,
        start=window.start,
        accepted=f"accepted by {who} at {now:%Y-%m-%d %H:%M:%S} UTC: {said}",
    )
    write_records(runs_uri, pipeline, [record])


def begun(
    window: Window, run_id: str, at: dt.datetime, others: Sequence[str], finished: dt.datetime
) -> WindowRecord:
    """Return the record of a run that begins, or has not ended at ``finished``."""
    return WindowRecord(
        run_id=run_id,
        window_start=window.start,
        window_end=window.end,
        step="begun",
        at=at,
        finished=finished,
        others=tuple(others),
    )


def _of_plan(plan: PlanResult, step: Mapping[str, Any]) -> list[WindowRecord]:
    if not plan.clusters:
        return [WindowRecord(**step, start=plan.window_start, asked=False)]
    found = []
    for planned in plan.clusters:
        look = lacking(plan, planned.cluster)
        late: dict[str, list[str]] = {}
        for file in plan.files:
            if file.late_window and planned.cluster in file.late_for:
                late.setdefault(file.late_window, []).append(file.path)
        found.append(
            WindowRecord(
                **step,
                cluster=planned.cluster,
                start=look.start,
                asked=look.asked and not plan.asked.files,
                uncovered=look.uncovered,
                late=late,
                recreated=deleted_in_words(planned.recreated),
            )
        )
    return found


def _of_delivery_gate(gate: DeliveryGateResult, step: Mapping[str, Any]) -> WindowRecord:
    look = gate.coverage
    if gate.status == "failed" or look is None:
        lost, judged = deleted_in_words(gate.recreated), look is not None
        return WindowRecord(**step, cluster=gate.cluster, recreated=lost, distrusted=judged)
    return WindowRecord(
        **{**step, "at": look.looked_at or gate.place},
        cluster=gate.cluster,
        start=look.start if look.start < look.end else None,
        end=look.end if look.end < gate.window_end else None,
        passed=True,
        uncovered=look.uncovered,
        committed=look.committed,
    )


def _of_report(report: RunReport, step: Mapping[str, Any]) -> list[WindowRecord]:
    run = run_view(report)
    # A cluster without a ship was not part of a run that ended well.
    clusters = [one for one in run.clusters if run.cause or one.ship]
    if not any(one.ship or one.gate for one in run.clusters):
        clusters = [ClusterView("", None, None, None, (), run.state)] if run.cause else []
    own = report.plan.own_files if report.plan else []
    return [
        *(
            WindowRecord(
                **{**step, "step": "report"},
                cluster=one.cluster,
                doubt=_in_words(one.doubts, _COVERED) if one.state == "doubt" else "",
                ended=RunEnd(
                    state="shipped" if one.state == "nothing" else one.state,
                    cause=_cause(run, one),
                    began=report.plan.started_at if report.plan else report.started_at,
                    files=len(own),
                    bytes=sum(file.size_bytes for file in own),
                    records=one.delivered,
                    there=one.before,
                    sent=_sent(one),
                ),
            )
            for one in clusters
        ),
        *_all_learned(report),
    ]


def _cause(run: RunView, one: ClusterView) -> str:
    if one.state == "doubt":
        return _in_words(one.doubts, (OTHER_WINDOWS,))
    steps = () if one.state == "blocked" else (one.ship, one.gate)
    errors = (step.error for step in steps if step and step.status == "failed")
    bad = one.state in ("blocked", "failed") and run.cause
    return next(filter(None, errors), bad.text if bad else "")


def _in_words(doubts: Sequence[Finding], without: Collection[str]) -> str:
    return " ".join(str(doubt) for doubt in doubts if doubt.code not in without)


def _sent(one: ClusterView) -> SentRecords | None:
    ship = one.ship
    if ship is None:
        return None
    topics: list[dict[str, Any]] = [
        {
            "topic": each.topic,
            "records": each.delivered + each.earlier,
            "bytes": each.delivered_bytes + each.earlier_bytes,
            "quarantine": each.quarantine,
            "parked": each.parked,
        }
        for each in one.topics
    ]
    return SentRecords(
        seconds=ship.ship_seconds,
        records=one.sent + ship.by_earlier_attempts,
        bytes=sum(each["bytes"] for each in topics),
        wire_bytes=ship.wire_bytes + ship.earlier_wire_bytes,
        quarantined=sum(one.quarantined.values())
        + sum(each.earlier for each in one.topics if each.quarantine),
        parked=one.parked,
        ledger=ship.chunks_end,
        topics=sorted(
            (each for each in topics if each["records"] or each["parked"]),
            key=lambda each: -each["records"],
        )[:_MOST_TOPICS],
    )


def _all_learned(report: RunReport) -> list[WindowRecord]:
    """Return the records of the gates, if each cluster's has passed after the last plan: they say
    all that the run's other records do."""
    plan, source, gates = report.plan, report.gate_source, report.delivery_gates
    if plan is None or source is None or source.is_closed is not False:
        return []
    passed = {
        gate.cluster
        for gate in gates
        if gate.status != "failed" and gate.coverage and gate.coverage.looked_at == plan.place
    }
    if not passed or passed != {planned.cluster for planned in plan.clusters}:
        return []
    return [one for result in (source, *gates) for one in records_of(result)]


def deleted_in_words(lost: Sequence[RecreatedTopic]) -> str:
    """Return a run's finding on topics that have lost delivered records; empty if there is none."""
    return "; ".join(map(str, lost[:1])) + (f"; and {len(lost) - 1} more" if lost[1:] else "")


# ---- files


class RecordFile(NamedTuple):
    """Name of a file of records."""

    name: str
    window: Window
    since: dt.datetime
    run_id: str
    step: str
    written: dt.datetime

    @classmethod
    def of(cls, name: str) -> RecordFile | None:
        """Return it; None for any other name."""
        try:
            text, since, run_id, step, written, *_ = name.removesuffix(".json").split("~")
            window = RunFolder.window_of(text)
            began, at = _read(since, _STAMP), _read(written, _MOMENT)
            return cls(name, window, began, run_id, step, at) if window else None
        except ValueError:
            return None


def _read(text: str, form: str) -> dt.datetime:
    return dt.datetime.strptime(text, form).replace(tzinfo=dt.UTC)


def _folder(runs_uri: str, pipeline: str) -> str:
    return f"{runs_uri.rstrip('/')}/{pipeline}/windows"


def write_records(runs_uri: str, pipeline: str, records: Sequence[WindowRecord]) -> None:
    """Write what one step learned. Raises OSError, ValueError."""
    if not records:
        return
    one = records[0]
    written = max(one.finished, one.at).astimezone(dt.UTC)
    whole = one.step == "report" and any(each.passed for each in records)
    parts = [
        RunFolder.name_of(one.window),
        f"{min(each.since for each in records):{_STAMP}}",
        one.run_id,
        _WHOLE if whole else one.step,
        f"{written:{_MOMENT}}",
        *([one.cluster] if len(records) == 1 and one.cluster else []),
    ]
    text = _RECORDS.dump_json(list(records), exclude_defaults=True)
    folder = f"{_folder(runs_uri, pipeline)}/{written:{_DAY}}"
    write_whole(f"{folder}/{'~'.join(parts)}.json", text)


def last_written(runs_uri: str, pipeline: str) -> dt.datetime | None:
    """Return the last moment at which a record was written, by the clock of its writer; None if
    there is none. Raises OSError."""
    root = _folder(runs_uri, pipeline)
    fs, path = file_system(root)
    fs.invalidate_cache()
    if not (days := names_in(fs, path)):
        return None
    files = filter(None, map(RecordFile.of, _names_of(fs, path, root, max(days))))
    return max((file.written for file in files), default=None)


def recorded_since(runs_uri: str, pipeline: str) -> dt.datetime | None:
    """Return the first day on which a record was written that is still there; None if there is
    none. Raises OSError."""
    fs, path = file_system(_folder(runs_uri, pipeline))
    days = [day[:10] for day in names_in(fs, path) if day[:1].isdigit()]
    return _read(min(days), _DAY) if days else None


def record_files(
    runs_uri: str, pipeline: str, first: dt.datetime | None = None
) -> dict[RecordFile, str]:
    """Return the files of the days from ``first`` on, without those that say nothing that a report
    of their run does not; file → URL of what holds it. Raises OSError."""
    root = _folder(runs_uri, pipeline)
    fs, path = file_system(root)
    fs.invalidate_cache()
    begin = f"{first - dt.timedelta(days=1):{_DAY}}" if first else ""
    days = [day for day in names_in(fs, path) if day >= begin]
    found: dict[RecordFile, str] = {}
    with runtime.ThreadPoolExecutor(_AT_ONCE) as pool:
        listed = pool.map(lambda day: _names_of(fs, path, root, day), days)
        for day, names in zip(days, listed, strict=True):
            for file in filter(None, map(RecordFile.of, names)):
                found.setdefault(
                    file, f"{root}/{day}" if day.endswith(".json") else f"{root}/{day}/{file.name}"
                )
    return dict(without_superseded(found))


def without_superseded(found: Mapping[RecordFile, str]) -> Iterator[tuple[RecordFile, str]]:
    whole: dict[tuple[Window, str], dt.datetime] = {}
    for file in found:
        if file.step == _WHOLE:
            run = file.window, file.run_id
            whole[run] = max(file.written, whole.get(run, file.written))
    for file, url in found.items():
        at = whole.get((file.window, file.run_id))
        if at is None or file.written > at or (file.step == _WHOLE and file.written == at):
            yield file, url


def _names_of(fs: Any, path: str, root: str, day: str) -> Iterable[str]:
    if not day.endswith(".json"):
        return names_in(fs, f"{path}/{day}")
    with _passed_over(f"{root}/{day}"):
        return _kept_day(f"{root}/{day}")
    return ()


def read_records(
    runs_uri: str, pipeline: str, start: dt.datetime, end: dt.datetime | None = None
) -> list[WindowRecord]:
    """Return the records about windows that touch [start, end), in their order. A file that cannot
    be read is passed over. Raises OSError if the files cannot be listed."""
    files = record_files(runs_uri, pipeline, start)
    wanted = [
        (file, url)
        for file, url in files.items()
        if file.window.end > start and (end is None or file.since < end)
    ]
    return sorted(
        (record for found in read_files(wanted) for record in found),
        key=lambda record: record.order,
    )


def read_files(files: Iterable[tuple[RecordFile, str]]) -> Iterator[Sequence[WindowRecord]]:
    """Yield what each of the files holds."""
    with runtime.ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(lambda each: _records_in(each[1], each[0].name), files)


def _records_in(url: str, name: str) -> Sequence[WindowRecord]:
    with _passed_over(url):
        return _file(url) if url.endswith(f"/{name}") else _kept_day(url).get(name, ())
    return ()


@contextlib.contextmanager
def _passed_over(url: str) -> Iterator[None]:
    """Pass over what cannot be read, and say so; silently if another run has just packed it."""
    try:
        yield
    except FileNotFoundError:
        pass
    except (OSError, ValidationError) as error:
        log.warning("%s is passed over: it cannot be read (%s)", url, error)


@functools.lru_cache(maxsize=20_000)
def _file(url: str) -> list[WindowRecord]:
    return _parsed(url, _RECORDS)


@functools.lru_cache(maxsize=400)
def _kept_day(url: str) -> dict[str, list[WindowRecord]]:
    return _parsed(url, _DAYS)


def _parsed(url: str, kind: TypeAdapter[T]) -> T:
    fs, path = file_system(url)
    return kind.validate_json(bytes(fs.cat_file(path)), extra="ignore")


def pack_days(runs_uri: str, pipeline: str, before: dt.datetime, most: int) -> None:
    """Put the files of each day that ended before into one. A day stays as it is while some of it
    cannot be read: nothing else holds it. Raises OSError.

    Another run may pack the same day. What it has removed by now lies in the packed file, which is
    read after the others and keeps what it holds.
    """
    root, last = _folder(runs_uri, pipeline), f"{before:{_DAY}}"
    fs, path = file_system(root)
    days = sorted(day for day in names_in(fs, path) if len(day) == len(last) and day < last)
    for day in days[:most]:
        fs.invalidate_cache()
        files = {
            file: f"{root}/{day}/{file.name}"
            for file in filter(None, map(RecordFile.of, names_in(fs, f"{path}/{day}")))
        }
        text, packed = b"", f"{root}/{day}.json"
        with _passed_over(f"{root}/{day}"), runtime.ThreadPoolExecutor(_AT_ONCE) as pool:
            kept, held = dict(without_superseded(files)), dict[str, list[WindowRecord]]()
            read = list(pool.map(_file, kept.values()))
            with contextlib.suppress(FileNotFoundError):
                held = _parsed(packed, _DAYS)
            held |= zip((file.name for file in kept), read, strict=True)
            text = _DAYS.dump_json(held, exclude_defaults=True)
        if not text:
            continue
        if files:
            write_whole(packed, text, durable=True)
            _kept_day.cache_clear()
        with contextlib.suppress(FileNotFoundError):  # another run was faster
            fs.rm(f"{path}/{day}", recursive=True)
