"""Made-up reports: for tests, and to look at the page in a browser with ``python -m
tests.samples.reports FOLDER``."""

import datetime as dt
import math
import sys
from pathlib import Path
from typing import Any

from shipper.finding import ok
from shipper.report.page import render
from shipper.report.plan_result import ClusterPlan, LeftOut, PlannedFile, PlanResult
from shipper.report.results import (
    Count,
    DeliveryGateResult,
    FileAccount,
    GateResult,
    PastRun,
    RunReport,
    ShipResult,
    TimelinePoint,
    TopicAccount,
)
from tests.samples.results import checked

START = dt.datetime(2026, 11, 21, 11, tzinfo=dt.UTC)
RAN = dt.datetime(2026, 11, 21, 12, 10, 4, tzinfo=dt.UTC)
FOLDER = "s3a://logs/web/2026/11/21/11/"
TOPICS = {"logs.web": (1_180_204, 0), "errors.web": (41_777, 1_250), "audit.web": (2_310, 0)}
FILTERED = {"health_checks": 31_446, "debug": 2_204}
QUARANTINED = {"unparseable": 9, "too_large": 4}
HOSTILE = '<script>alert("1")</script>&"\'\u202egpj.exe\x00'


def step(after_seconds: float = 0, seconds: float = 4, **more: Any) -> dict[str, Any]:
    """What every step result has, with times after the start of the run."""
    begin = RAN + dt.timedelta(seconds=after_seconds)
    common = {
        "pipeline": "web_access",
        "window_start": START,
        "window_end": START + dt.timedelta(hours=1),
    }
    times = {"started_at": begin, "finished_at": begin + dt.timedelta(seconds=seconds)}
    return {**common, **times, "run_id": "20261121T121004-3f9a1c", **more}


def planned(count: int) -> list[PlannedFile]:
    return [
        PlannedFile(
            path=f"{FOLDER}host=web-{i % 8:02}/access-{i:04}.log.gz",
            size_bytes=9_000_000 + 7_919 * (i * i % 401),
            modified_ms=int(START.timestamp() * 1000) + 1000 * i,
            splits=1,
        )
        for i in range(count)
    ]


def plan(
    files: int = 12, clusters: tuple[str, ...] = ("frankfurt",), there: int = 1250, **more: Any
) -> PlanResult:
    listed = planned(files)
    size = sum(file.size_bytes for file in listed)
    return PlanResult(
        **step(),
        source=f"{FOLDER}**/*.log.gz",
        files=listed,
        topics=["logs.web", "errors.web"],
        clusters=[
            ClusterPlan(cluster=c, left_files=files, left_bytes=size, records_there=there)
            for c in clusters
        ],
        **more,
    )


def source_gate(passed: bool = True) -> GateResult:
    checks = [
        checked("files", True, "at least 12", "12"),
        checked("not_null(value)", passed, "all", "100 %" if passed else "97.2 %"),
        checked("fresh(modified)", False, "at most 1h old", "1h10m4s", "warn"),
    ]
    closed = (
        "The source gate is closed: not_null(value) expected all, observed 97.2 %. Look at the "
        "files, or lower min_rate."
    )
    return GateResult(
        **step(5, 9, status="succeeded" if passed else "failed", error=None if passed else closed),
        step="gate_source",
        checks=checks,
        scope="4 of 12 files",
    )


def timeline(count: int, records: int, every_seconds: float = 1) -> list[TimelinePoint]:
    """A ramp, a plateau with waves, and a dip, which add up to about ``records``."""
    shape = [
        min(1, (i + 1) / 4)
        * (1 + 0.15 * math.sin(i / 3))
        * (0.25 if count > 8 and i in (count // 2, count // 2 + 1) else 1)
        for i in range(count)
    ]
    each = records / (sum(shape) or 1)
    return [
        TimelinePoint(
            at=RAN + dt.timedelta(seconds=20 + every_seconds * (i + 1)),
            records=int(each * s),
            bytes=int(each * s * 162),
        )
        for i, s in enumerate(shape)
    ]


def ship(
    topics: dict[str, tuple[int, int]] | None = None,
    *,
    cluster: str = "frankfurt",
    files: int = 12,
    points: int = 24,
    unread_files: int = 0,
    **more: Any,
) -> ShipResult:
    """``topics``: name → (delivered, before). Everything is accounted for unless ``more`` says
    otherwise; the files that were not read come first, and are as large as all others."""
    topics = TOPICS if topics is None else topics
    delivered, before = (sum(figures[i] for figures in topics.values()) for i in (0, 1))
    each, unread = (delivered + before) // files, (delivered + before) // files * unread_files
    accounts = [
        FileAccount(
            path=file.path,
            records=each,
            delivered=each if i >= unread_files else 0,
            before=0 if i >= unread_files else each,
        )
        for i, file in enumerate(planned(files))
    ]
    common = step(15, 31, status=more.pop("status", "succeeded"), error=more.pop("error", None))
    figures = {
        "read": delivered + before - unread,
        "unread": unread,
        "unread_files": unread_files,
        "topics": [
            TopicAccount(topic=n, delivered=d, delivered_bytes=162 * d, before=b)
            for n, (d, b) in topics.items()
        ],
        "files": accounts,
        "ship_seconds": float(points) if delivered else 0.0,
        "timeline": timeline(points, delivered) if delivered else [],
        "generation": 14,
        "tasks": 2,
        "lanes": 3,
    }
    return ShipResult(**common, cluster=cluster, **{**figures, **more})


def delivery_gate(
    shipped: ShipResult, *, off: int = 0, read_back: bool = False
) -> DeliveryGateResult:
    """The ledger agrees, except for ``off`` records."""
    topics = [t.model_copy(update={"ledger": t.delivered + t.before}) for t in shipped.topics]
    if off:
        topics[0].ledger = (topics[0].ledger or 0) + off
    if read_back:
        topics = [t.model_copy(update={"read_back": t.delivered}) for t in topics]
    total = sum(topic.ledger or 0 for topic in topics)
    sums = checked(
        "sum_closes(logs.web)",
        not off,
        f"{total - off:,} delivered + before, by the receipts",
        f"{total:,} in the ledger, read anew",
    )
    error = (
        f"The delivery gate of {shipped.cluster} is closed: the ledger holds {total:,} records, "
        f"expected {total - off:,}."
    )
    return DeliveryGateResult(
        **step(47, 3, status="failed" if off else "succeeded", error=error if off else None),
        cluster=shipped.cluster,
        checks=[sums],
        topics=topics,
        account=account(shipped, topics),
        scope="the whole window",
    )


def account(shipped: ShipResult, topics: list[TopicAccount]) -> list[Count]:
    """Every figure as each place would count it."""
    counts = [Count(name="read", spark=shipped.read, receipts=shipped.read)]
    counts += [
        Count(name=f"filtered: {rule}", spark=n, receipts=n) for rule, n in shipped.filtered.items()
    ]
    counts += [
        Count(name=f"quarantined: {reason}", spark=n, receipts=n, ledger=n)
        for reason, n in shipped.quarantined.items()
    ]
    for topic in topics:
        sent = topic.delivered + topic.before
        found = None if topic.read_back is None else topic.read_back + topic.before
        routed = None if topic.quarantine else sent
        counts.append(
            Count(
                name=topic.topic, spark=routed, receipts=sent, ledger=topic.ledger, read_back=found
            )
        )
    return counts


def history(count: int = 23) -> list[PastRun]:
    """The hours before, oldest first, with a day's ups and downs."""
    hour, runs = dt.timedelta(hours=1), []
    for i in range(count, 0, -1):
        share = 1 + 0.35 * math.sin(i / 4)
        begin = START - i * hour
        runs.append(
            PastRun(
                window_start=begin,
                window_end=begin + hour,
                run_id=f"{begin:%Y%m%dT%H%M%S}-0{i:05x}",
                files=12 - (i % 11 == 0),
                bytes=int(108_000_000 * share),
                records=int(1_190_000 * share),
                seconds=48.0 * share,
            )
        )
    return runs


def report(**parts: Any) -> RunReport:
    """``error``: of a run that failed."""
    status = "failed" if parts.get("error") else "succeeded"
    return RunReport(**{**step(51, 1), "owner": "edge-team", "status": status, **parts})


def shipped(**figures: Any) -> RunReport:
    ran = ship(**figures)
    young = LeftOut(
        path=f"{FOLDER}host=web-03/access-0012.log.gz",
        reason="modified 4m ago, settles after 10m",
        code="unsettled",
    )
    return report(
        plan=plan(len(ran.files) or 12, left_out=[young]),
        gate_source=source_gate(),
        ships=[ran],
        delivery_gates=[delivery_gate(ran)],
    )


def partly_there() -> RunReport:
    """A retry: four of 16 files are complete and not read, others are half there."""
    notes = [ok("Took over the lease of run 20261121T120301-77ab02, not renewed for 2m10s.")]
    topics = {"logs.web": (402_000, 780_514), "errors.web": (20_000, 21_777)}
    ran = ship(topics, files=16, unread_files=4, findings=notes, lane_reopened=1)
    return report(
        plan=plan(16, there=802_291),
        gate_source=source_gate(),
        ships=[ran],
        delivery_gates=[delivery_gate(ran)],
    )


def set_aside() -> RunReport:
    """Everything that a good run can have: two rules, a quarantine, records that were there, a
    read-back, lanes, history."""
    ran = ship(filtered=FILTERED, quarantined=QUARANTINED, lane_reopened=2, wire_bytes=27_000_000)
    left, bad = sum(FILTERED.values()), sum(QUARANTINED.values())
    ran.read += left + bad
    ran.topics.append(
        TopicAccount(
            topic="quarantine.web", quarantine=True, delivered=bad, delivered_bytes=256 * bad
        )
    )
    for i, file in enumerate(ran.files):
        share = {
            rule: n // len(ran.files) + (n % len(ran.files) if i == 0 else 0)
            for rule, n in FILTERED.items()
        }
        file.filtered, file.quarantined = share, QUARANTINED if i == 7 else {}
        file.records += sum(share.values()) + sum(file.quarantined.values())
        file.seconds = 3.1 + 0.37 * (i * 5 % 12) + (9.5 if i == 4 else 0)
    gate = source_gate()
    gate.scans = 3
    like = "within 50 % of the median of earlier runs, 108.3 MB"
    usual = [run.bytes / 1e6 for run in history()]
    gate.checks += [
        checked("size", True, like, "112.0 MB", history=usual),
        checked("matches(value)", False, "all match", "9 of 100,312 do not", "quarantine"),
    ]
    return report(
        plan=plan(),
        gate_source=gate,
        ships=[ran],
        delivery_gates=[delivery_gate(ran, read_back=True)],
        history=history(),
    )


def topic_parked() -> RunReport:
    """One topic was away until the end: its records were read and not sent; all others were
    delivered."""
    error = (
        "topic audit.web could not be written to within 600 s (`delivery.metadata_wait`): unknown "
        "topic. Everything else was sent. Create it, or check its name and the ACLs; then run "
        "again: only what is left will be sent."
    )
    ran = ship(
        {"logs.web": (1_180_204, 0), "errors.web": (41_777, 1_250), "audit.web": (0, 0)},
        status="failed",
        error=error,
    )
    ran.read = 1_225_541
    ran.topics[2].parked, ran.parked = 2_310, {"audit.web": 2_310}
    ran.timeline = timeline(24, ran.delivered - 40)
    for file in ran.files:
        file.records, file.delivered = 102_128, 102_128
    ran.files[3].delivered -= 2_310
    return report(
        error=f"ship:frankfurt: {error}",
        plan=plan(),
        gate_source=source_gate(),
        ships=[ran],
        history=history(),
    )


def doubled_chunk() -> RunReport:
    """The read-back finds more in a topic than anybody sent."""
    ran = ship()
    gate = delivery_gate(ran, read_back=True)
    gate.topics[0].read_back = (gate.topics[0].read_back or 0) + 12_000
    gate.account = account(ran, gate.topics)
    gate.status = "failed"
    gate.error = (
        "The gate is closed after shipping to frankfurt: read_back(logs.web) expected 1,180,204, "
        "observed 1,192,204. Do not trust this window before it is cleared up."
    )
    gate.checks.append(checked("read_back(logs.web)", False, "1,180,204", "1,192,204"))
    return report(
        error=f"gate_delivery:frankfurt: {gate.error}",
        plan=plan(),
        gate_source=source_gate(),
        ships=[ran],
        delivery_gates=[gate],
        history=history(),
    )


def nothing_to_do() -> RunReport:
    ran = ship(
        {"logs.web": (0, 1_182_514), "errors.web": (0, 43_028)},
        unread_files=12,
        read=0,
        unread=1_225_542,
    )
    before = plan(there=1_225_542)
    before.clusters[0] = before.clusters[0].model_copy(
        update={"left_files": 0, "left_bytes": 0, "complete_files": 12}
    )
    gate = GateResult(
        **step(5, 0, status="skipped"), step="gate_source", scope="nothing is left to ship"
    )
    return report(plan=before, gate_source=gate, ships=[ran], delivery_gates=[delivery_gate(ran)])


def gate_closed() -> RunReport:
    gate = source_gate(passed=False)
    return report(error=f"gate_source: {gate.error}", plan=plan(), gate_source=gate)


def ship_failed() -> RunReport:
    """Two clusters; one of them went away in the middle: Spark's count and some receipts are lost,
    the ledger's is not."""
    error = (
        "singapore: broker 2 (kafka-2.sg.example:9093) has not answered for 2m; 7 of 12 files were "
        "not finished. Check the network path and run the same window again."
    )
    good = ship()
    bad = ship({"logs.web": (502_118, 0), "errors.web": (17_402, 0)}, cluster="singapore",
               read=0, status="failed", error=error, task_retries=6, lane_reopened=11)  # fmt: skip
    bad.timeline = timeline(24, 560_000)
    for file in bad.files[5:]:
        file.records = file.delivered = 0
    bad.files[0].delivered -= 12_480
    return report(
        error=f"ship:singapore: {error}",
        plan=plan(clusters=("frankfurt", "singapore"), there=0),
        gate_source=source_gate(),
        ships=[good, bad],
        delivery_gates=[delivery_gate(good)],
    )


def gate_open_sum() -> RunReport:
    """Spark read more than the receipts account for, and the delivery gate saw it."""
    ran = ship(read=1_237_541)
    gate = delivery_gate(ran, off=-21)
    return report(
        error=f"gate_delivery:frankfurt: {gate.error}",
        plan=plan(),
        gate_source=source_gate(),
        ships=[ran],
        delivery_gates=[gate],
    )


def crashed() -> RunReport:
    """Not even a plan: the configuration could not be read."""
    error = (
        "config/pipelines/web_access.yaml:7: routes[0].when: unknown column 'statsu' (did you "
        "mean 'status'?)"
    )
    return report(error=error)


def hostile() -> RunReport:
    bad = shipped()
    bad.plan.files[0].path = bad.ships[0].files[0].path = FOLDER + HOSTILE + "x" * 300
    bad.plan.left_out[0].reason = bad.gate_source.checks[0].observed = HOSTILE
    bad.ships[0].topics[0].topic = bad.delivery_gates[0].topics[0].topic = HOSTILE + "y" * 249
    bad.ships[0].note(HOSTILE * 20, code="hostile")
    return bad.model_copy(
        update={"status": "failed", "error": HOSTILE, "owner": HOSTILE, "run_id": HOSTILE}
    )


def large() -> RunReport:
    """5,000 files, 40 topics, three clusters, 2,000 points in time."""
    topics = {
        f"logs.service-{i:02}.production": (9_000_000 // (i + 1) ** 2, 77 * (i % 3))
        for i in range(40)
    }
    clusters = ("frankfurt", "singapore", "sao-paulo")
    ran = [ship(topics, cluster=cluster, files=5000, points=2000) for cluster in clusters]
    young = [
        LeftOut(
            path=f"{FOLDER}host=web-{i % 8:02}/new-{i:04}.log.gz",
            reason="modified 2m ago, settles after 10m",
            code="unsettled",
        )
        for i in range(260)
    ]
    for one in ran:
        for i, file in enumerate(one.files):
            file.seconds = 0.8 + (i * 7919 % 1009) / 400 + (60 if i == 1234 else 0)
    gates = [delivery_gate(one) for one in ran]
    planned_all = plan(5000, clusters, left_out=young)
    parts = {
        "gate_source": source_gate(),
        "ships": ran,
        "delivery_gates": gates,
        "history": history(90),
    }
    return report(plan=planned_all, **parts)


SAMPLES = (
    *(
        shipped,
        partly_there,
        set_aside,
        nothing_to_do,
        gate_closed,
        ship_failed,
        topic_parked,
        gate_open_sum,
        doubled_chunk,
    ),
    *(crashed, hostile, large),
)


def main(folder: Path):
    folder.mkdir(parents=True, exist_ok=True)
    for sample in SAMPLES:
        (folder / f"{sample.__name__}.html").write_text(render(sample()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
