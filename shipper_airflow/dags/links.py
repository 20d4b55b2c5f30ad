"""Buttons on a task in Airflow's UI. The task itself says where they lead, when it is done: Airflow
asks for each while it ends the task."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperator, BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

    from shipper.report.run_folder import RunFolder
    from shipper.runner import Job
    from shipper.windows.window import Window

#: Where shipper's plugin answers, below Airflow's own address (shipper_airflow/plugin.py,
#: shipper/shipments/app.py).
_REPORTS, _SHIPMENTS = "shipper/report", "shipper/shipments"


class ReportLink(BaseOperatorLink):
    """Link to the page of the task's run. All steps of a run share it; the page exists once the
    report is made."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return getattr(operator, "report_url", "")


class WindowLink(BaseOperatorLink):
    """Link to the window on the Shipments page: its state on each cluster, by the ledger, and all
    of its runs."""

    name = "Window"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return getattr(operator, "window_url", "")


def report_url(job: Job, folder: RunFolder) -> str:
    """Return the report's address for a browser: the page itself if results are on the web, else by
    the plugin, which asks for the person's rights. Empty for a dry run, which the page does not
    know."""
    if folder.uri.startswith(("http://", "https://")):
        return folder.path("report.html")
    if job.request.plan_only:
        return ""
    window = folder.name_of(job.window)
    return "/".join(
        [
            base_url(),
            _REPORTS,
            *(quote(part, safe="") for part in (job.pipeline.name, window, job.run_id)),
        ]
    )


def window_url(job: Job) -> str:
    """Return the window's address for a browser; empty for a dry run."""
    return "" if job.request.plan_only else window_page(job.pipeline.name, job.window)


def window_page(pipeline: str, window: Window) -> str:
    """Return the address for a browser. The window stands in the query, which a login keeps, and
    not in the fragment, which it loses."""
    opened = {"dag_id": pipeline, "window": f"{pipeline} {window}"}
    return f"{base_url()}/{_SHIPMENTS}?{urlencode(opened, quote_via=quote, safe='')}"


def run_page(dag_id: str, run_id: str) -> str:
    """Return the address of Airflow's own page of the run."""
    return f"{base_url()}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


def base_url() -> str:
    from airflow.sdk.configuration import conf

    return conf.get("api", "base_url", fallback="").rstrip("/") or "http://localhost:8080"
