"""Where on the page the first cause of a failure is shown: the check, the topic, the file, the figure, or else the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shipper.report.account import Account, RunStep, steps
from shipper.report.counts import MOST_COUNTS
from shipper.report.files import File, place_of_file, shown_files
from shipper.report.results import RunReport
from shipper.report.sections import MOST_TOPICS, anchor
from shipper.report.verdict import Verdict, checks

MOST_PLACES = 6

Place = tuple[str, str]
"""What is there, and the id of the element."""


def places(report: RunReport, found: Sequence[Account], ending: Verdict) -> list[Place]:
    """At most :data:`MOST_PLACES`, the closest first. Names what is on the page only."""
    step = ending.failed
    if step is None:
        return []
    if step.name in ("gate_source", "gate_delivery"):
        near = [*_failed_checks(report, step), *_wrong_figures(found, step)]
    else:
        files = shown_files(report, found)
        near = [*_topics(found, step, ending.cause), *_files(files, step, ending.cause)]
    index = next(i for i, other in enumerate(steps(report)) if (other.name, other.cluster) == (step.name, step.cluster))
    return [*near[: MOST_PLACES - 1], (f"step {step.title.lower()}", f"step-{index}")]


def _failed_checks(report: RunReport, step: RunStep) -> Iterator[Place]:
    title = "Source" if step.cluster is None else f"Delivery, {step.cluster}"
    for i, (gate, check) in enumerate(checks(report)):
        if gate == title and check.severity == "block" and not check.passed:
            yield f"check {check.check}", f"check-{i}"


def _wrong_figures(found: Sequence[Account], step: RunStep) -> Iterator[Place]:
    for account in found:
        if account.cluster == step.cluster:
            wrong = [i for i, count in enumerate(account.counts) if not count.agrees]
            for i in wrong[:MOST_COUNTS]:
                yield f"count of {account.counts[i].name}", f"{anchor(found, account)}-count-{i}"


def _topics(found: Sequence[Account], step: RunStep, cause: str | None) -> Iterator[Place]:
    """Those with parked records, and those that the cause names."""
    for account in found:
        if account.cluster == step.cluster:
            for i, topic in enumerate(account.topics[:MOST_TOPICS]):
                if topic.parked or (cause and f" {topic.topic} " in f" {cause} ".replace(",", " ").replace(":", " ")):
                    yield f"topic {topic.topic}", f"{anchor(found, account)}-topic-{i}"


def _files(files: Sequence[File], step: RunStep, cause: str | None) -> Iterator[Place]:
    """Those that the cause names, and those of which something is missing."""
    for i, file in enumerate(files):
        if (file.missing and file.cluster == step.cluster) or (cause and file.path in cause):
            yield f"file {file.path.rpartition('/')[2]}", place_of_file(i)
