"""Consequences of a change of the configuration for the next runs: ``shipper validate --against``.

They are found from the two folders alone, and quote no value, which may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shipper.config.environment import EVERYTHING
from shipper.config.load import LoadedConfig, hash_keys, load_all
from shipper.config.pipeline import Pipeline
from shipper.errors import UsageError
from shipper.report.markup import words

_REFUSED = (
    "A file that was shipped in part is refused: finish it under the old configuration before "
    "you merge, or run its window with --reship. Complete files count as done, and are not sent "
    "again."
)
_SECTIONS: dict[Literal["quarantine", "schedule", "source"], str] = {
    "quarantine": "Other records go to quarantine, to another topic, or fail the run.",
    "schedule": (
        "The pipeline runs at other times, or counts as late or given up after another time. "
        "`shipper gaps` says which windows are missing."
    ),
    "source": (
        "Other files are looked for, or the same ones elsewhere. A file that was shipped is known "
        "by its place, or by its content if it was renamed."
    ),
}


@dataclass(frozen=True)
class Change:
    """One consequence of a change of a pipeline."""

    pipeline: str
    kind: str
    clusters: tuple[str, ...]
    """Clusters that are affected; empty: all."""
    message: str

    def __str__(self) -> str:
        where = f" ({words(self.clusters)})" if self.clusters else ""
        return f"{self.pipeline}: {self.kind.replace('_', ' ')}{where}: {self.message}"


def changes(old: Path, new: Path, only: str | None = None) -> list[Change]:
    """Return the consequences of replacing the configuration in ``old`` by the one in ``new``, of
    its pipelines without a fault. ``only``: of this pipeline. Raises UsageError if ``old`` has a
    fault."""
    if not old.is_dir():
        raise UsageError(f"`--against {old}` is no folder. Nothing was compared.", code="SHIP-203")
    # What references stand for is unknown on both sides, so that both compare equal.
    before, now = load_all(old, EVERYTHING), load_all(new, EVERYTHING)
    if before.faults:
        faults = "\n".join(map(str, before.faults))
        raise UsageError(f"`--against {old}` names a configuration with faults.\n{faults}")
    names = now.pipelines.keys() | now.broken.keys()
    earlier = {
        name: _predecessor(pipeline, before, names) for name, pipeline in now.pipelines.items()
    }
    went_on = {pipeline.name for pipeline in earlier.values() if pipeline} | now.broken.keys()
    gone = [one for name, one in before.pipelines.items() if name not in went_on]
    found = [change for one in gone for change in _gone(one)]
    for name, pipeline in now.pipelines.items():
        was = earlier[name]
        if was is None:
            found += _new(pipeline, gone)
        else:
            keys = hash_keys(old, was.name), hash_keys(new, name)
            found += _changed(was, pipeline, other_keys=keys[0] != keys[1])
    chosen = (change for change in found if only in (None, change.pipeline))
    return sorted(chosen, key=lambda change: change.pipeline)


def _predecessor(
    pipeline: Pipeline, before: LoadedConfig, names: Sequence[str] | set[str]
) -> Pipeline | None:
    """Return the earlier version of a pipeline: by its name, or by a name that it had formerly."""
    had = [pipeline.name, *(name for name in pipeline.formerly if name not in names)]
    return next((before.pipelines[name] for name in had if name in before.pipelines), None)


def _new(now: Pipeline, gone: Sequence[Pipeline]) -> Iterator[Change]:
    text = (
        f"A new pipeline, with an empty ledger: it ships {now.source.path} to "
        f"{words(list(now.clusters))}."
    )
    same = [one.name for one in gone if one.source.path == now.source.path]
    if same:
        text += (
            f" {words(same)} read the same source and is gone. If this is the same pipeline, "
            f"write `formerly: {same[0]}`, or everything is sent again."
        )
    yield Change(now.name, "new", (), text)


def _gone(before: Pipeline) -> Iterator[Change]:
    text = (
        f"No run ships {before.source.path} to {words(list(before.clusters))} any more. Records "
        "and ledgers stay where they are."
    )
    yield Change(before.name, "removed", (), text)


def _changed(before: Pipeline, now: Pipeline, *, other_keys: bool) -> Iterator[Change]:
    """Yield the consequences for a pipeline. ``other_keys``: True if a key of `records.redact` is
    named by another reference."""
    name = now.name
    if (before.name, before.key) != (name, now.key):
        text = (
            f"{before.name} goes on as {name}, with the ledger and results of {now.key}. If the "
            "name is another, its DAG is a new one in Airflow: pause the old one."
        )
        yield Change(name, "renamed", (), text)
    yield from _transform(before, now, other_keys)
    for cluster in now.clusters:
        yield from _topics(before, now, cluster)
    for cluster in before.clusters:
        if cluster not in now.clusters:
            text = (
                f"No run ships to {cluster} any more. Delivered records stay there, and missing "
                "ones stay missing."
            )
            yield Change(name, "clusters", (cluster,), text)
    if any(rule not in now.records.redact for rule in before.records.redact):
        text = (
            "Text that no rule redacts any more leaves unchanged. Records that were shipped "
            "before stay as they are."
        )
        yield Change(name, "redaction", (), text)
    for section, text in _SECTIONS.items():
        if getattr(before, section) != getattr(now, section):
            yield Change(name, section, (), text)
    if before.gates.source != now.gates.source:
        text = "Other checks decide before the first byte."
        yield Change(name, "source_gate", (), text)
    if before.gates.delivery != now.gates.delivery:
        yield Change(name, "delivery_gate", (), "Other checks decide whether the run is right.")


def _transform(before: Pipeline, now: Pipeline, other_keys: bool) -> Iterator[Change]:
    changed = [
        cluster
        for cluster in now.clusters
        if cluster in before.clusters
        and before.on(cluster).transform_digest() != now.on(cluster).transform_digest()
    ]
    if changed:
        where = () if changed == list(now.clusters) else tuple(changed)
        yield Change(now.name, "transform", where, f"Lines become other records. {_REFUSED}")
    elif other_keys:
        text = (
            "A hash of `records.redact` refers to its key in another way. If the key differs, "
            f"lines become other records. {_REFUSED}"
        )
        yield Change(now.name, "transform", (), text)


def _topics(before: Pipeline, now: Pipeline, cluster: str) -> Iterator[Change]:
    new = _topics_of(now.on(cluster))
    if cluster not in before.clusters:
        text = (
            f"From the next run on, runs also ship to {cluster}. Its topics ({words(new)}) must "
            "exist. Ship earlier windows by a backfill."
        )
        yield Change(now.name, "clusters", (cluster,), text)
        return
    old = _topics_of(before.on(cluster))
    said = []
    if more := [topic for topic in new if topic not in old]:
        said.append(
            f"Records may also go to {words(more)}: the topics must exist, and the pipeline's "
            "user must be allowed to write to them."
        )
    if fewer := [topic for topic in old if topic not in new]:
        said.append(
            f"No record goes to {words(fewer)} any more. Records that are there stay, and a file "
            "that was shipped in part to one of these topics is refused."
        )
    if said:
        yield Change(now.name, "topics", (cluster,), " ".join(said))


def _topics_of(pipeline: Pipeline) -> list[str]:
    """Return the names of the topics; of routes with a pattern, the topic as written."""
    patterns = [route.topic for route in pipeline.routes if route.matching is not None]
    in_quarantine = [pipeline.quarantine.topic] if pipeline.quarantine else []
    return [*pipeline.listed_topics(), *patterns, *in_quarantine]
