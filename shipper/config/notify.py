"""Who is told how a run ended: the part of a pipeline below `notify`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from shipper.config.base import Model
from shipper.config.rules import CLASS_PATTERN


class Notify(Model):
    """A notice by one of Airflow's notifiers. Sent by the DAG only; `shipper run` prints."""

    on: tuple[Literal["failure", "late", "warning", "success"], ...] = Field(default=("failure",), min_length=1)
    """`failure`: the run failed. `late`: it has not ended when `schedule.deliver_within` is over. `warning`: it succeeded, and a
    check of severity `warn` does not hold, records were quarantined, or counts disagree. `success`: it succeeded, with or without
    warnings."""
    notifier: str = Field(pattern=CLASS_PATTERN, examples=["airflow.providers.slack.notifications.slack.SlackNotifier"])
    """Full name of the notifier's class, a subclass of Airflow's `BaseNotifier`. Its provider must be installed where the DAG is
    parsed and where its tasks run."""
    with_: dict[str, Any] = Field(default_factory=dict, alias="with")
    """Its arguments. Those that the notifier templates may use `{{ notice.title }}`, `{{ notice.text }}`, `{{ notice.cause }}`, …
    beside what Airflow's templates know: docs/operations.md lists them. No secrets: name an Airflow connection."""
