"""The plugin: shipper's timetables and deadline, which Airflow needs when it reads a DAG back from
its database, and the Shipments page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from airflow.plugins_manager import AirflowPlugin

# Airflow forks a process for each parse and for each task off one that has loaded the plugin. What
# they all need is imported once, here. In a fork it also has the collector go through all that
# Airflow has imported: 0.35 CPU s for each file and parse in place of 0.1.
import shipper.config.load  # noqa: F401
from shipper_airflow.deadline import WindowClosed
from shipper_airflow.place import root
from shipper_airflow.timetable import Windows

_PREFIX = "shipper"


async def shipments(
    scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Serve the page as an ASGI app. Scheduler and tasks load the plugin too: only a request
    imports what answers it."""
    from shipper_airflow.shipments import app

    await app(scope, receive, send)


def _href(query: str = "") -> str:
    return f"{root()}{_PREFIX}/shipments{query}"


class ShipperPlugin(AirflowPlugin):
    name = "shipper"
    timetables = [Windows]  # noqa: RUF012  # as Airflow declares it
    deadline_references = [WindowClosed]  # noqa: RUF012
    fastapi_apps = [{"app": shipments, "url_prefix": f"/{_PREFIX}", "name": "shipper"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Shipments",
            "href": _href(),
            "destination": "nav",
            "url_route": "shipments",
            "category": "browse",
        },
        {
            "name": "Shipments",
            "href": _href("?dag_id={DAG_ID}"),
            "destination": "dag",
            "url_route": "dag-shipments",
        },
    ]
