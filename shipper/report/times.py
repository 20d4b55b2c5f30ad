"""Where the time of a run went: a bar for each step, in its phases, all to the same scale. A slow run explains itself by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from shipper.config.units import format_duration
from shipper.report.account import steps
from shipper.report.markup import Html, tag, utc
from shipper.report.phases import STARTING_PYTHON
from shipper.report.results import RunReport
from shipper.report.run_folder import StepResult

#: What is too short to be worth a word.
_SHORTEST_SHARE, _SHORTEST_SECONDS = 0.02, 0.2
_REST = "the rest"
#: Phase → colour, by what one could do about it; what is not named here is work.
_KINDS = {
    STARTING_PYTHON: "start",
    "starting Java": "start",
    "starting Spark": "start",
    "starting tasks": "start",
    "waiting for the lease": "wait",
    "shipping": "ship",
    _REST: "rest",
}


@dataclass(frozen=True)
class _TimedPhase:
    name: str
    seconds: float

    @property
    def kind(self) -> str:
        return _KINDS.get(self.name, "work")


def times_section(report: RunReport) -> Html | None:
    """None for a run whose steps did not say."""
    timed = [(step.title, _parts(step.result)) for step in steps(report) if step.result and step.result.phases]
    if not timed:
        return None
    longest = max(sum(part.seconds for part in parts) for _, parts in timed)
    rows = (_row(title, parts, longest) for title, parts in timed)
    asked = _requests(report)
    said = tag("p", asked) if asked else None
    return tag("section", tag("h2", "Where the time went"), tag("dl", *rows, class_="times"), said, id="times")


def _requests(report: RunReport) -> str:
    """Of all steps together: who pays for them wants to know."""
    found = sum((Counter(step.result.source_requests) for step in steps(report) if step.result), Counter[str]())
    counts = [f"{count:,} {kind}" for kind, count in found.items()]
    return f"Requests to the object store: {', '.join(counts)}." if counts else ""


def _parts(result: StepResult) -> list[_TimedPhase]:
    """In the order of the phases; what belongs to none comes last."""
    found = [_TimedPhase(name, seconds) for name, seconds in result.phases.items()]
    within = sum(part.seconds for part in found if part.name != STARTING_PYTHON)
    rest = (utc(result.finished_at) - utc(result.started_at)).total_seconds() - within
    return [*found, *([_TimedPhase(_REST, rest)] if rest >= 0.001 else [])]


def _row(title: str, parts: list[_TimedPhase], longest: float) -> Html:
    total = sum(part.seconds for part in parts)
    return tag(
        "div",
        tag("dt", title, " ", tag("b", format_duration(total))),
        tag(
            "dd",
            tag("div", *_segments(parts, longest), class_="bar", aria_hidden="true"),
            tag("ul", *(tag("li", _says(part), class_=part.kind) for part in parts if _shown(part, total))),
        ),
    )


def _segments(parts: list[_TimedPhase], longest: float) -> Iterator[Html]:
    for part in parts:
        width = 100 * part.seconds / longest if longest else 0.0
        yield tag("span", class_=part.kind, style=f"width:{width:.2f}%", title=_says(part))


def _shown(part: _TimedPhase, total: float) -> bool:
    return part.seconds >= max(_SHORTEST_SECONDS, _SHORTEST_SHARE * total) or part.seconds >= 0.5 * total


def _says(part: _TimedPhase) -> str:
    return f"{part.name} {format_duration(part.seconds)}"
