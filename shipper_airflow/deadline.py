"""Deadlines of runs, as Airflow's scheduler computes them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.deadline import BaseDeadlineReference

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class WindowClosed(BaseDeadlineReference):
    """The moment from which `schedule.deliver_within` counts. Of a scheduled run: its window's end,
    or, if Airflow made the run up later, as much before the run was queued as `source.settle` is
    long. So every scheduled run has the same time for its work. Of any other run: when it was
    queued, since a backfill of last month is not late before it has begun."""

    required_kwargs = frozenset({"dag_id", "run_id"})

    def __init__(self, settle_seconds: float = 0.0) -> None:
        """Make the deadline. ``settle_seconds``: the timetable's pause between a window's end and
        its run."""
        self.settle_seconds = settle_seconds

    def serialize_reference(self) -> dict[str, Any]:
        return {**super().serialize_reference(), "settle_seconds": self.settle_seconds}

    @classmethod
    def deserialize_reference(cls, reference_data: dict[str, Any]) -> WindowClosed:
        return cls(reference_data["settle_seconds"])

    def _evaluate_with(self, *, session: Session, dag_id: str, run_id: str) -> dt.datetime | None:
        from airflow.models import DagRun
        from airflow.utils.types import DagRunType
        from sqlalchemy import select

        asked = select(DagRun.queued_at, DagRun.run_type).where(
            DagRun.dag_id == dag_id, DagRun.run_id == run_id
        )
        found = session.execute(asked).one_or_none()
        if found is None or found.queued_at is None:
            return None
        queued_at: dt.datetime = found.queued_at
        is_scheduled = found.run_type == DagRunType.SCHEDULED
        return queued_at - dt.timedelta(seconds=self.settle_seconds) if is_scheduled else queued_at
