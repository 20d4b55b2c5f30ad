"""The plugin that makes Airflow know shipper's timetable when it reads a DAG back from its database."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from shipper_airflow.timetable import EveryWindow


class ShipperPlugin(AirflowPlugin):
    name = "shipper"
    timetables = [EveryWindow]  # noqa: RUF012  # as Airflow declares it
