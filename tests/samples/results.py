"""What every result of a step has."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

from shipper.report.results import CheckResult
from shipper.windows.window import Window

NOON = Window(*(dt.datetime(2026, 11, 1, hour, tzinfo=dt.UTC) for hour in (12, 13)))


def common(
    window: Window = NOON, run_id: str = "r", at: dt.datetime | None = None, pipeline: str = "web"
) -> dict[str, Any]:
    """``at``: when the step began and ended; when the window ended, unless given."""
    return {
        "pipeline": pipeline,
        "window_start": window.start,
        "window_end": window.end,
        "run_id": run_id,
        "started_at": at or window.end,
        "finished_at": at or window.end,
    }


def checked(
    check: str, passed: bool, expected: str, observed: str, severity: str = "block", **more: Any
) -> CheckResult:
    """Return what became of a check."""
    found = {"check": check, "passed": passed, "expected": expected, "observed": observed}
    return CheckResult(severity=severity, **found, **more)


def closed(checks: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the checks that close their gate."""
    return [check for check in checks if check.blocks]
