"""Buttons on a task in Airflow's UI. The task itself says where they lead, when it is done: Airflow asks for each while it ends the task."""

from __future__ import annotations

import datetime as dt
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperator, BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

    from shipper.report.run_folder import RunFolder
    from shipper.runner import Job

#: Where shipper's plugin answers, below Airflow's own address (shipper_airflow/plugin.py, shipper/shipments/app.py, static/page.js).
_REPORTS, _SHIPMENTS = "shipper/api/report", "shipper/shipments"


class ReportLink(BaseOperatorLink):
    """To the page of the task's run. A run's steps share it; it is there when the report is made."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return getattr(operator, "report_url", "")


class WindowLink(BaseOperatorLink):
    """To the window on the Shipments page: what is on each cluster, by the ledger, and all of its runs."""

    name = "Window"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return getattr(operator, "window_url", "")


def report_url(job: Job, folder: RunFolder) -> str:
    """For a browser: the page itself where results are on the web, else by the plugin, which asks for the person's rights. Empty if nobody
    serves it: without the plugin's page, and for a dry run, which the page does not know."""
    if folder.uri.startswith(("http://", "https://")):
        return folder.path("report.html")
    if not _is_shown(job):
        return ""
    window = folder.name_of(job.window_start, job.window_end)
    return "/".join([_base(), _REPORTS, *(quote(part, safe="") for part in (job.pipeline.name, window, job.run_id))])


def window_url(job: Job) -> str:
    """For a browser; empty where the page is not, and for a dry run."""
    if not _is_shown(job):
        return ""
    name, start, end = job.pipeline.name, job.window_start.astimezone(dt.UTC), job.window_end.astimezone(dt.UTC)
    opened = quote(f"{name} {start:%Y-%m-%dT%H:%M:%SZ}/{end:%Y-%m-%dT%H:%M:%SZ}", safe="")
    return f"{_base()}/{_SHIPMENTS}?dag_id={quote(name, safe='')}#window={opened}"


def _is_shown(job: Job) -> bool:
    return not job.plan_only and find_spec("shipper.shipments") is not None


def _base() -> str:
    from airflow.sdk.configuration import conf

    return conf.get("api", "base_url", fallback="").rstrip("/") or "http://localhost:8080"
