"""One notice for one cause over many pipelines: a dead cluster is told once, not forty times.

::

    Notice with an outside cause ─▶ kept in {runs_uri}/_together/{receiver}/{cause}/
        first of its cause, or PAUSE after the last one that was sent ─▶ sent, with all that is kept
        else ─▶ stays kept, until a run that ends tells what has waited for PAUSE

Each notice is kept before its sender looks at the others. Of several that look at once, the one
that was kept first speaks, and the others see it. Clocks of two hosts may differ: then both speak.
A sender that dies leaves its notice kept, and after a minute the next one speaks. What was sent is
removed afterwards. So a notice may be sent twice, and is never lost.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shipper import runtime
from shipper.config.rules import resolve_uri
from shipper.config.units import plural
from shipper.error_codes import code_of
from shipper.report.run_folder import names_in
from shipper.whole_files import file_system, read_text, remove, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from shipper.config.pipeline import Notify, Pipeline
    from shipper_airflow.dags.notice import Notice

PAUSE = dt.timedelta(hours=1)
"""Shortest time between two notices of one cause."""
_SENDS_WITHIN = dt.timedelta(minutes=1)
_OF_SOURCES = frozenset({"SHIP-302", "SHIP-313"})
_OF_CLUSTERS = frozenset({"SHIP-401", "SHIP-402", "SHIP-407", "SHIP-408", "SHIP-412"})
_MOST_LINES = 50
_MOMENT = "%Y%m%dT%H%M%S%fZ"


def common_cause(
    pipeline: Pipeline, config_dir: Path, cause: str | None, cluster: str | None
) -> tuple[str, str] | None:
    """Return `runs_uri` and the name of a cause that other pipelines may have too; None for any
    other cause. ``cluster``: the one that the cause is about, if that is known."""
    code = code_of(cause)
    runs_uri = resolve_uri(config_dir, pipeline.runs_uri)
    if code in _OF_CLUSTERS:
        return runs_uri, f"{code}-{_digest([cluster] if cluster else sorted(pipeline.clusters))}"
    if code in _OF_SOURCES:
        source = urlsplit(resolve_uri(config_dir, pipeline.source.path))
        return runs_uri, f"{code}-{_digest([source.scheme, source.netloc])}"
    return None


class Together:
    """Notices for one receiver about one cause."""

    def __init__(self, runs_uri: str, entry: Notify, cause: str) -> None:
        self._uri = f"{_folder(runs_uri, entry)}/{cause}"
        self._sent: list[str] = []

    def add(self, notice: Notice) -> Notice | None:
        """Keep the notice. Return what is to be sent now: the notice, or one for all that is kept;
        None if it waits. Raises OSError."""
        now = runtime.now()
        own = f"{now.strftime(_MOMENT)}{_end(notice.pipeline, notice.window)}"
        write_whole(f"{self._uri}/{own}", json.dumps(dataclasses.asdict(notice)))
        if last := self._last():
            speaks = now - last >= PAUSE
        else:
            fresh = (now - _SENDS_WITHIN).strftime(_MOMENT)
            speaks = not any(fresh < name < own for name in self._kept())
        return self._all() if speaks else None

    def due(self) -> Notice | None:
        """Return one notice for all that has waited for long enough; None if there is nothing.
        Raises OSError."""
        now, kept = runtime.now(), self._kept()
        waits_since = self._last() or (kept and _moment(kept[0].partition("--")[0])) or now
        return self._all() if kept and now - waits_since >= PAUSE else None

    def sent(self) -> None:
        """Note that the last notice was sent. Raises OSError."""
        write_whole(f"{self._uri}/told", runtime.now().strftime(_MOMENT))
        for name in self._sent:
            remove(f"{self._uri}/{name}")

    def _all(self) -> Notice | None:
        self._sent = self._kept()
        return _one_of([notice for name in self._sent if (notice := self._read(name))])

    def _kept(self) -> list[str]:
        return sorted(name for name in _names(self._uri) if name.endswith(".json"))

    def _last(self) -> dt.datetime | None:
        text = read_text(f"{self._uri}/told")
        return _moment(text) if text else None

    def _read(self, name: str) -> Notice | None:
        from shipper_airflow.dags.notice import Notice

        if not (text := read_text(f"{self._uri}/{name}")):
            return None  # another sender was first
        kept: dict[str, Any] = json.loads(text)
        return Notice(**{**kept, "details": tuple(kept["details"]), "common": None})


def waiting(runs_uri: str, entry: Notify) -> Iterator[Together]:
    """Yield the causes of which a receiver may not have heard everything. Raises OSError."""
    for cause in _names(_folder(runs_uri, entry)):
        yield Together(runs_uri, entry, cause)


def forget(runs_uri: str, pipeline: Pipeline, window: str) -> None:
    """Remove what is kept of a window that is whole now. Raises OSError."""
    for entry in pipeline.notify:
        for cause in _names(folder := _folder(runs_uri, entry)):
            for name in _names(f"{folder}/{cause}"):
                if name.endswith(_end(pipeline.name, window)):
                    remove(f"{folder}/{cause}/{name}")


def _one_of(notices: Sequence[Notice]) -> Notice | None:
    """Return the notice for all of them."""
    if len(notices) < 2:
        return notices[0] if notices else None
    names, titles = sorted({one.pipeline for one in notices}), [one.title for one in notices]
    lines = [*dict.fromkeys(titles)]
    more = [f"and {len(lines) - _MOST_LINES:,} more"] if lines[_MOST_LINES:] else []
    return dataclasses.replace(
        notices[-1],
        event="failure" if any(one.event == "failure" for one in notices) else "late",
        pipeline=names[0] if len(names) == 1 else f"{len(names)} pipelines",
        owner=", ".join(sorted({one.owner for one in notices})),
        window=None,
        headline=f"{plural(len(lines), 'notice')} of one cause",
        at=None,
        report=None,
        page=None,
        log=None,
        details=(*lines[:_MOST_LINES], *more),
        details_are="Concerned",
    )


def _folder(runs_uri: str, entry: Notify) -> str:
    return f"{runs_uri.rstrip('/')}/_together/{_digest([entry.notifier, entry.with_])}"


def _end(pipeline: str, window: str | None) -> str:
    return f"--{pipeline}--{_digest(window)}.json"


def _digest(of: object) -> str:
    text = json.dumps(of, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _moment(text: str) -> dt.datetime:
    return dt.datetime.strptime(text, _MOMENT).replace(tzinfo=dt.UTC)


def _names(uri: str) -> list[str]:
    fs, path = file_system(uri)
    fs.invalidate_cache()
    return names_in(fs, path)
