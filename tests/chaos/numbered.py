"""Records that carry their own identity, so that a topic says of itself what is lost and what is
doubled."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline

#: Bytes of every line with its end. As long as a log line is, so that a chunk has some hundreds of
#: them; and all the same, so that the bytes of a split's records are exactly the bytes of the
#: split.
LINE_BYTES = 200
_PADDING = b"as long as a log line is, and as long as every other one here " * 4


@dataclass(frozen=True)
class Numbered:
    """A ship of numbered records: what there is to ship, and how. The files exist on paper only,
    with the sizes that their records add up to."""

    name: str
    """The pipeline's."""
    bootstrap: str
    topics: tuple[str, ...]
    runs: str
    """The folder for results."""
    run_id: str = "first"
    files: tuple[int, int] = (0, 4)
    """Numbers of the files, [first, behind)."""
    splits: int = 2
    """Per file."""
    records: int = 2000
    """Per split. At least 328, since a split has 64 KiB or more."""
    records_per_second: float = 4000
    """How fast each task reads."""
    tasks: int = 2
    lanes: int = 2
    parking_bytes: int = 64_000_000
    """For chunks that wait for their topics, in each task."""
    reship: bool = False
    pauses: dict[str, float] = field(default_factory=dict)
    """Method (see ship_numbered.owner) → seconds that it waits first: transactions are open for
    longer, so that a fault finds one."""
    properties: dict[str, Any] = field(default_factory=dict)
    """librdkafka's, in the cluster's config."""
    bandwidth: str = "125MB/s"
    delivery: dict[str, Any] = field(default_factory=dict)
    """In place of these test settings."""

    @property
    def cluster(self) -> Cluster:
        return Cluster.model_validate(
            {
                "cluster": "three",
                "bootstrap": self.bootstrap,
                "properties": self.properties,
                "bandwidth": self.bandwidth,
            }
        )

    @property
    def pipeline(self) -> Pipeline:
        delivery = {
            "chunk_size": "40kB",
            "batch_size": "20kB",
            "lanes": self.lanes,
            "lease": "2s",
            "lease_wait": "60s",
            "metadata_wait": "40s",
            "transaction_timeout": "20s",
        }
        routes = [{"when": "true", "topic": topic} for topic in self.topics[:-1]]
        return Pipeline.model_validate(
            {
                "pipeline": self.name,
                "source": {"path": "numbered", "split_size": f"{self.split_bytes}B"},
                "routes": [*routes, {"topic": self.topics[-1]}],
                "clusters": ["three"],
                "delivery": delivery | self.delivery,
                "runner": {"cores": self.tasks},
                "runs_uri": self.runs,
            }
        )

    @property
    def split_bytes(self) -> int:
        return self.records * LINE_BYTES

    @property
    def file_bytes(self) -> int:
        return self.splits * self.split_bytes

    @property
    def file_paths(self) -> list[str]:
        return [path_of(number) for number in range(*self.files)]

    def topic_of(self, ordinal: int) -> int:
        """Index into ``topics``."""
        return ordinal % len(self.topics)

    def split_ids(self) -> Iterator[tuple[str, int]]:
        """(path, start) of every split."""
        for path in self.file_paths:
            for index in range(self.splits):
                yield path, index * self.split_bytes

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Numbered:
        fields = json.loads(text)
        fields["topics"], fields["files"] = tuple(fields["topics"]), tuple(fields["files"])
        return cls(**fields)


def path_of(number: int) -> str:
    return f"numbered:///{number:05}.log"


def value_of(path: str, start: int, ordinal: int) -> bytes:
    """Return a line without its end: :data:`LINE_BYTES` - 1 bytes."""
    identity = b"%s %d %d " % (path.encode(), start, ordinal)
    return identity + _PADDING[: LINE_BYTES - 1 - len(identity)]


def identity_of(value: bytes) -> tuple[str, int, int]:
    """Return (path, start of the split, ordinal). Raise ValueError for a value that is not
    whole."""
    path, start, ordinal, _ = value.split(b" ", 3)
    found = path.decode(), int(start), int(ordinal)
    if value != value_of(*found):
        raise ValueError(f"not a numbered record: {value[:200]!r}")
    return found
