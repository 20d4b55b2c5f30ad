"""Buttons on a task in Airflow's UI. The task itself says where they lead, when it is done: Airflow asks for each while it ends the task."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperator, BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

    from shipper.report.run_folder import RunFolder
    from shipper.runner import Job

#: Where shipper's plugin answers, below Airflow's own address (shipper_airflow/plugin.py, shipper/shipments/app.py).
_REPORTS = "shipper/api/report"


class ReportLink(BaseOperatorLink):
    """To the page of the task's run. A run's steps share it; it is there when the report is made."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return getattr(operator, "report_url", "")


def report_url(job: Job, folder: RunFolder) -> str:
    """For a browser: the page itself where results are on the web, else by the plugin, which asks for the person's rights. Empty if nobody
    serves it: without the plugin's page, and for a dry run, which the page does not know."""
    if folder.uri.startswith(("http://", "https://")):
        return folder.path("report.html")
    if job.plan_only or find_spec("shipper.shipments") is None:
        return ""
    from airflow.sdk.configuration import conf

    base = conf.get("api", "base_url", fallback="").rstrip("/") or "http://localhost:8080"
    window = folder.name_of(job.window_start, job.window_end)
    return "/".join([base, _REPORTS, *(quote(part, safe="") for part in (job.pipeline.name, window, job.run_id))])
