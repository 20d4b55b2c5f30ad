"""Time of a run: a bar for each step, in its phases, all to the same scale. A slow run explains
itself by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shipper.config.units import format_duration, utc
from shipper.report.phases import STARTING_PYTHON
from shipper.report.run_folder import StepResult
from shipper.report.run_view import RunStep

#: Shortest time that is worth a word.
_SHORTEST_SHARE, _SHORTEST_SECONDS = 0.02, 0.2
#: Shortest wait that is worth a look.
_WORTH_A_COLOUR_SECONDS = 5.0
_REST = "the rest"
#: Phase → colour, by what one could do about it; a phase that is not named here is work.
_KINDS = {
    STARTING_PYTHON: "start",
    "starting Java": "start",
    "starting Spark": "start",
    "starting tasks": "start",
    "waiting for the lease": "wait",
    "shipping": "ship",
    _REST: "rest",
}


def times(steps: Sequence[RunStep]) -> list[dict[str, Any]]:
    """Return a bar for each step that reported its phases."""
    timed = [
        (step.title, _parts(step.result)) for step in steps if step.result and step.result.phases
    ]
    longest = max((sum(parts.values()) for _, parts in timed), default=0.0)
    return [_bar(title, parts, longest) for title, parts in timed]


def requests(steps: Sequence[RunStep]) -> str:
    """Return the requests of all steps together, since a cloud store bills them."""
    found = sum(
        (Counter(step.result.source_requests) for step in steps if step.result),
        Counter[str](),
    )
    counts = [f"{count:,} {kind}" for kind, count in found.items()]
    return f"Requests to the object store: {', '.join(counts)}." if counts else ""


def _parts(result: StepResult) -> dict[str, float]:
    """Return phase → seconds, in their order; time outside of phases comes last."""
    within = sum(seconds for name, seconds in result.phases.items() if name != STARTING_PYTHON)
    rest = (utc(result.finished_at) - utc(result.started_at)).total_seconds() - within
    return {**result.phases, **({_REST: rest} if rest >= 0.001 else {})}


def _kind(name: str, seconds: float) -> str:
    kind = _KINDS.get(name, "work")
    return "rest" if kind == "wait" and seconds < _WORTH_A_COLOUR_SECONDS else kind


def _bar(title: str, parts: dict[str, float], longest: float) -> dict[str, Any]:
    total = sum(parts.values())
    shortest = min(max(_SHORTEST_SECONDS, _SHORTEST_SHARE * total), 0.5 * total)
    bar = [
        {
            "kind": _kind(name, seconds),
            "says": f"{name} {format_duration(seconds)}",
            "shown": seconds >= shortest,
            "width": f"{100 * seconds / longest if longest else 0:.2f}",
        }
        for name, seconds in parts.items()
    ]
    return {"title": title, "total": format_duration(total), "parts": bar}
