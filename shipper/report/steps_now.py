"""Steps of a run that has not ended, by the results in its folder: for the notice that it is late,
and for the Shipments page, which print the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import ValidationError

from shipper.error_codes import with_code, without_code
from shipper.errors import StepResultError
from shipper.report.markup import words
from shipper.report.message import one_sentence
from shipper.report.run_folder import RunFolder, StepResult
from shipper.runner import GATE_DELIVERY, REPORT, step_names


class StepNow(NamedTuple):
    step: str
    """Name as in the command line: ``ship:near``."""
    status: str = ""
    """``succeeded``, ``skipped`` or ``failed``; empty: no result yet."""
    error: str = ""
    """Reason of the failure, in one sentence without its code."""
    code: str | None = None
    final: bool = False
    ended: dt.datetime | None = None

    @property
    def cluster(self) -> str:
        return self.step.partition(":")[2]

    @property
    def is_done(self) -> bool:
        return self.status in ("succeeded", "skipped")

    @property
    def says(self) -> str:
        """``failed and is tried again: no broker answers``; empty for a step that did not fail."""
        if self.status != "failed":
            return ""
        again = "is not tried again" if self.final else "is tried again"
        return f"failed and {again}: {self.error}"


def steps_now(
    folder: RunFolder, clusters: Sequence[str], began: dt.datetime | None = None
) -> list[StepNow]:
    """Return the steps before the report, in their order. ``began``: when the run did, last; an
    earlier attempt's results do not count."""
    steps = [step for step in step_names(clusters) if step != REPORT]
    return [_step(folder, step, began) for step in steps]


def _step(folder: RunFolder, step: str, began: dt.datetime | None) -> StepNow:
    try:
        text = folder.read_text(f"{step.replace(':', '.')}.json")
        found = StepResult.model_validate_json(text, extra="ignore") if text else None
    except (StepResultError, ValidationError):  # details are worth less than what they are for
        found = None
    if found is None or (began and found.started_at < began):
        return StepNow(step)
    error = without_code(one_sentence(found.error or "it does not say why")).rstrip(".")
    return StepNow(
        step,
        found.status,
        error if found.status == "failed" else "",
        found.code,
        found.final,
        found.finished_at,
    )


def delivered_to(steps: Sequence[StepNow]) -> list[str]:
    """Return the clusters whose delivery gate has passed."""
    return [
        step.cluster for step in steps if step.step.startswith(f"{GATE_DELIVERY}:") and step.is_done
    ]


def open_step(steps: Sequence[StepNow]) -> StepNow:
    """Return the unfinished step: the first that failed, else the first; the report if none is
    unfinished."""
    open_ = sorted((step for step in steps if not step.is_done), key=lambda step: not step.status)
    return open_[0] if open_ else StepNow(REPORT)


def where_it_stands(steps: Sequence[StepNow]) -> str:
    """Return one sentence: the unfinished step, its message when it failed, and the clusters that
    have everything."""
    there = delivered_to(steps)
    has = f"; {words(there)} {'has' if len(there) == 1 else 'have'} everything" if there else ""
    step = open_step(steps)
    if step.says:
        return with_code(f"{step.step} {step.says}{has}", step.code)
    return f"{step.step} has not ended: it is running, or waits for a worker or a pool{has}"
