"""A notifier of Airflow's that writes what it is to tell into a file: one JSON object per line."""

import json
from collections.abc import Sequence
from pathlib import Path

from airflow.sdk import BaseNotifier


class FileNotifier(BaseNotifier):
    template_fields: Sequence[str] = ("text", "fields")

    def __init__(
        self, *, path: str, text: str = "{{ notice.text }}", fields: dict[str, str] | None = None
    ):
        super().__init__()
        self.path = path
        self.text = text
        self.fields = fields or {}

    def notify(self, context):
        with Path(self.path).open("a") as lines:
            print(
                json.dumps({"event": context["notice"].event, "text": self.text, **self.fields}),
                file=lines,
            )


class SilentNotifier(FileNotifier):
    """One whose service is away."""

    def notify(self, context):
        raise ConnectionError("the service is away")


class NoNotifier:
    """A class that is none."""
