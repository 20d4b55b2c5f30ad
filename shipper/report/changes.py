"""Results of `shipper diff`: consequences of a change of the configuration for the next runs. They
are made of the two folders alone, and show no secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Secret

from shipper.config.cluster import Cluster
from shipper.config.explain import unit_of
from shipper.config.pipeline import Pipeline
from shipper.config.units import written
from shipper.report.markup import words
from shipper.report.run_folder import Result

EffectKind = Literal[
    "new", "removed", "renamed", "transform", "topics", "clusters", "redaction", "quarantine",
    "schedule", "source", "source_gate", "delivery_gate",
]  # fmt: skip
_HIDDEN = "(not shown)"
_REFUSED = (
    "A file that was shipped in part is refused: finish it under the old configuration before "
    "you merge, or run its window with --reship. Complete files count as done, and are not sent "
    "again."
)
#: Key → heading, and the consequence of any change below the key.
_CONSEQUENCES: dict[str, tuple[EffectKind, str]] = {
    "records.redact": (
        "redaction",
        "Text that no rule redacts any more leaves unchanged. Records that were shipped before "
        "stay as they are.",
    ),
    "quarantine": (
        "quarantine",
        "Records that cannot be shipped go to the topic of `quarantine`. Without it they fail "
        "the run.",
    ),
    "schedule": (
        "schedule",
        "The pipeline runs at other times, or counts as late or given up after another time. "
        "Files are known individually, so nothing is sent twice. `shipper gaps` says which "
        "windows are missing.",
    ),
    "source.path": (
        "source",
        "Files are looked for elsewhere. A file at the same place below the part in front of the "
        "first placeholder or glob, with the same size and time, counts as the same file. Another "
        "one is shipped, unless its content shows that it was renamed.",
    ),
    "gates.source": ("source_gate", "Other checks decide before the first byte."),
    "gates.delivery": ("delivery_gate", "Other checks decide whether the run is right."),
}


class Change(Result):
    """A key that has another value."""

    field: str
    """Path of the key, as in the file."""
    before: list[str]
    """Lines as a user writes them; of a list, the removed entries. Empty: the setting did not
    exist."""
    after: list[str]
    """The same of now."""


class Effect(Result):
    """One consequence of changes."""

    kind: EffectKind
    clusters: list[str] = []  # noqa: RUF012 - pydantic copies it
    """The clusters that are affected; empty: all."""
    text: str


class PipelineChanges(Result):
    """One pipeline that has changed."""

    pipeline: str
    effects: list[Effect]
    changes: list[Change]


class ClusterChanges(Result):
    """One cluster's file that has changed."""

    cluster: str
    changes: list[Change]


class ConfigChanges(Result):
    """Differences of two folders of configuration."""

    version: Literal[1] = 1
    pipelines: list[PipelineChanges]
    clusters: list[ClusterChanges]
    unchanged: list[str]
    """Pipelines that have not changed."""


def compare_clusters(before: Cluster, now: Cluster) -> list[Change]:
    """Return the changed keys; those that may be secret without their values."""
    return list(_changes(before, now))


def compare_pipelines(
    before: Pipeline, now: Pipeline, *, other_keys: bool = False
) -> PipelineChanges | None:
    """Compare two versions of a pipeline. Return None if they are the same. ``other_keys``: True if
    a key of `records.redact` is named by another reference."""
    changes = list(_changes(before, now))
    effects = [
        *_renamed(before, now),
        *_transform(before, now, other_keys),
        *_topics(before, now),
        *_clusters(before, now),
        *(
            Effect(kind=kind, text=text)
            for key, (kind, text) in _CONSEQUENCES.items()
            if any(f"{change.field}.".startswith(f"{key}.") for change in changes)
        ),
    ]
    if other_keys:
        changes.append(Change(field="records.redact", before=[_HIDDEN], after=[_HIDDEN]))
    if not changes:
        return None
    return PipelineChanges(pipeline=now.name, effects=effects, changes=changes)


def new_pipeline(now: Pipeline, removed: Sequence[Pipeline]) -> PipelineChanges:
    """Describe a new pipeline. ``removed``: pipelines that are gone."""
    text = (
        f"A new pipeline, with an empty ledger: it ships {now.source.path} to "
        f"{words(now.clusters)}."
    )
    same = [one.name for one in removed if one.source.path == now.source.path]
    if same:
        text += (
            f" {words(same)} read the same source and is gone. If this is the same pipeline, "
            f"write `formerly: {same[0]}`, or everything is sent again."
        )
    return PipelineChanges(pipeline=now.name, effects=[Effect(kind="new", text=text)], changes=[])


def removed_pipeline(before: Pipeline) -> PipelineChanges:
    """Describe a pipeline that is gone."""
    text = (
        f"No run ships {before.source.path} to {words(before.clusters)} any more. Records and "
        "ledgers stay where they are."
    )
    return PipelineChanges(
        pipeline=before.name, effects=[Effect(kind="removed", text=text)], changes=[]
    )


# Consequences


def _renamed(before: Pipeline, now: Pipeline) -> Iterator[Effect]:
    if (before.name, before.key) != (now.name, now.key):
        text = (
            f"{before.name} goes on as {now.name}, with the ledger and results of {now.key}. If "
            "the name is another, its DAG is a new one in Airflow: pause the old one."
        )
        yield Effect(kind="renamed", text=text)


def _transform(before: Pipeline, now: Pipeline, other_keys: bool) -> Iterator[Effect]:
    both = [name for name in now.clusters if name in before.clusters]
    changed = [
        name
        for name in both
        if before.on(name).transform_digest() != now.on(name).transform_digest()
    ]
    if changed:
        yield Effect(
            kind="transform",
            clusters=[] if changed == list(now.clusters) else changed,
            text=f"Lines become other records. {_REFUSED}",
        )
    elif other_keys:
        yield Effect(
            kind="transform",
            text="A hash of `records.redact` refers to its key in another way. If the key differs, "
            f"lines become other records. {_REFUSED}",
        )


def _topics(before: Pipeline, now: Pipeline) -> Iterator[Effect]:
    for name in now.clusters:
        if name not in before.clusters:
            continue
        old, new = _topics_of(before.on(name)), _topics_of(now.on(name))
        text = ""
        if more := [topic for topic in new if topic not in old]:
            text = (
                f"Records may also go to {words(more)}: the topics must exist, and the pipeline's "
                "user must be allowed to write to them. "
            )
        if fewer := [topic for topic in old if topic not in new]:
            text += f"No record goes to {words(fewer)} any more. Records that are there stay."
        if text:
            yield Effect(kind="topics", clusters=[name], text=text.strip())


def _topics_of(pipeline: Pipeline) -> list[str]:
    """Return the names of the topics; of routes with a pattern, the topic as written."""
    patterns = [route.topic for route in pipeline.routes if route.matching is not None]
    in_quarantine = [pipeline.quarantine.topic] if pipeline.quarantine else []
    return [*pipeline.listed_topics(), *patterns, *in_quarantine]


def _clusters(before: Pipeline, now: Pipeline) -> Iterator[Effect]:
    for name in now.clusters:
        if name not in before.clusters:
            topics = words(_topics_of(now.on(name)))
            yield Effect(
                kind="clusters",
                clusters=[name],
                text=f"From the next run on, runs also ship to {name}. Its topics ({topics}) must "
                "exist. Ship earlier windows by a backfill.",
            )
    for name in before.clusters:
        if name not in now.clusters:
            yield Effect(
                kind="clusters",
                clusters=[name],
                text=f"No run ships to {name} any more. Delivered records stay there, and missing "
                "ones stay missing.",
            )


# Keys


class _Hidden(str):
    """A secret: compared by its value, and shown without it."""

    __slots__ = ("_value",)
    _value: object

    def __new__(cls, value: object) -> _Hidden:
        self = super().__new__(cls, _HIDDEN)
        self._value = value
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hidden) and self._value == other._value

    def __hash__(self) -> int:
        return hash(_HIDDEN)


def _changes(before: BaseModel, now: BaseModel) -> Iterator[Change]:
    old, new = dict(_flat(before)), dict(_flat(now))
    for path in dict.fromkeys([*new, *old]):
        was, is_now = old.get(path, []), new.get(path, [])
        if was == is_now:
            continue
        gone = [entry for entry in was if entry not in is_now]
        more = [entry for entry in is_now if entry not in was]
        if not gone and not more:  # in another order, or as often as before
            gone, more = was, is_now
        yield Change(field=path, before=[*map(str, gone)], after=[*map(str, more)])


def _flat(model: BaseModel, above: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the path of each key that has a value, and the value as a user writes it; of a list,
    its entries."""
    for name, field in type(model).model_fields.items():
        path, value = f"{above}{field.alias or name}", getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _flat(value, f"{path}.")
        elif isinstance(value, dict):
            if any(isinstance(below, BaseModel) for below in value.values()):
                yield path, list(value)
            for key, below in value.items():
                if isinstance(below, BaseModel):
                    yield from _flat(below, f"{path}.{key}.")
                else:
                    yield f"{path}.{key}", [_entry(below)]
        elif isinstance(value, tuple):
            yield path, [_entry(entry) for entry in value]
        elif value is not None:
            yield path, [_entry(value, field)]


def _entry(value: Any, field: Any = None) -> str:
    """Write one value in one line, without secrets."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        inside = (
            f"{fields[name].alias or name}: {_entry(found, fields[name])}"
            for name in sorted(fields, key=lambda name: name != "check")
            if (found := getattr(value, name)) not in (None, (), {})
            and found != fields[name].default
        )
        return f"{{{', '.join(inside)}}}"
    if isinstance(value, Secret):
        return _Hidden(value.get_secret_value())
    if isinstance(value, tuple):
        return f"[{', '.join(_entry(one) for one in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_entry(one)}' for key, one in value.items())}}}"
    return written(value, unit_of(field) if field is not None else None)
