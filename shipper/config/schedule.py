"""Times when windows close, and deadlines of runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictBool, field_validator

from shipper.config.rules import Model, check_cron, check_timezone
from shipper.config.units import Moment, Seconds


class Schedule(Model):
    """Schedule of the windows and their runs. A bare string is taken as `cron`."""

    cron: str = Field(min_length=1, examples=["0 * * * *"])
    """Cron expression of five fields, or an Airflow preset such as `@hourly`. Each interval between
    two ticks is one window."""
    timezone: str = "UTC"
    """IANA name of the time zone in which `cron` is read. Windows themselves are always UTC."""
    start: Moment | None = None
    """First moment that belongs to a window (a date means midnight UTC). Without it the schedule
    begins with the latest window that had closed and settled when Airflow first saw the pipeline.
    """
    catchup: StrictBool | Literal["together"] = True
    """True if every window of the schedule is run, in order: those between `start` and now, and
    those that an outage or a pause left out. `together`: the windows that are behind are shipped by
    one run. Each is still noted, told and announced by itself, but the source gate judges all their
    files together. If false, Airflow continues after an outage with the latest window that has
    closed and settled. `shipper gaps` lists the missing windows."""
    tasks: Literal["steps", "one"] = "steps"
    """Tasks of a run in Airflow. `steps`: one for each step and cluster. `one`: a single task and a
    single process, which cost less time and CPU: for schedules of minutes, or many small pipelines.
    Results, notices and the page are the same. A retry begins with the plan, the clusters are
    shipped to one after the other, and assets are updated when all of them have the window."""
    deliver_within_seconds: Seconds | None = Field(default=None, alias="deliver_within", gt=0)
    """Deadline of a scheduled run, counted from the close of its window, `source.settle` included.
    A run that has not ended by then is late. `notify` with `on: [late]`, or `shipper gaps --alert`,
    says so once for each window, also for a window that nobody ran. If Airflow creates the run
    later, the run gets the same working time, counted from when it is queued. A manual run or a
    backfill gets the whole time from when it is queued."""

    give_up_after_seconds: Seconds | None = Field(default=86_400.0, alias="give_up_after", gt=0)
    """Time limit of a run, counted from when its files have settled. When the time is over, the
    running step is stopped and the run fails, because a hanging run would block every later window.
    Nothing is lost: what is in the ledger stays, and the next run ships the rest. `null`: no limit.
    If a backfill over a wide window takes longer, run it again, or raise the limit."""

    @field_validator("cron")
    @classmethod
    def _readable_cron(cls, value: str) -> str:
        check_cron(value)
        return value

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        check_timezone(value)
        return value
