"""Another team's DAG: starts once for a day, when all 24 hourly windows of `web_access` are on the
cluster `frankfurt`, those included that came late. It needs Airflow 3.3, and nothing of shipper."""

from __future__ import annotations

from airflow.sdk import (
    DAG,
    Asset,
    DayWindow,
    PartitionedAssetTimetable,
    RollupMapper,
    StartOfDayMapper,
    task,
)

whole_days = PartitionedAssetTimetable(
    assets=Asset("shipper://frankfurt/web_access"),
    default_partition_mapper=RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow()),
)

with DAG("web_access_day", schedule=whole_days, catchup=False):

    @task
    def load(dag_run=None) -> str:
        """Read the day from the topics. Its name is the run's partition key."""
        print(f"all of {dag_run.partition_key} is on frankfurt")
        return dag_run.partition_key

    load()
