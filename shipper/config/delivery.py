"""How records travel and what is promised about them: the part of a pipeline below `delivery`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictInt, model_validator

from shipper.config.base import Model
from shipper.config.units import Bytes, BytesPerSecond, Seconds


class Delivery(Model):
    """How records travel and what is promised about them."""

    guarantee: Literal["exactly_once", "at_least_once", "prefer_exactly_once"] = "exactly_once"
    """`exactly_once`: a chunk's records and its ledger record commit in one Kafka transaction. `at_least_once`: no transactions; the
    ledger record follows when the records are acknowledged, so a fault doubles at most the chunks that were in flight.
    `prefer_exactly_once`: the second one only where the cluster has no transactions; the report says which it was."""
    ordering: Literal["none", "file"] = "none"
    """`file`: records of a file keep their order within a partition, also across retries. It costs: files are read one after the
    other by a single task, and each goes to one partition through one lane, so over distance the rate is that of one lane."""
    tuning: Literal["auto", "off"] = "auto"
    """`auto`: lanes, batches and chunks are sized before each run from the measured round trip, the cluster's `bandwidth`, the
    topics' `max.message.bytes` and how well a sample of the files compresses. What is set by hand stays. `off`: sizes for a short link."""
    chunk_size_bytes: Bytes | None = Field(default=None, alias="chunk_size", ge=1_000, le=256_000_000)
    """Values per transaction, in uncompressed bytes. Sized by `tuning` if not given. May change from run to run."""
    lanes: StrictInt | None = Field(default=None, ge=1, le=128)
    """Transactional producers per Spark task. Sized by `tuning` if not given. May change from run to run."""
    batch_size_bytes: Bytes | None = Field(default=None, alias="batch_size", ge=1_000, le=100_000_000)
    """What a lane sends to a partition at a time, in uncompressed bytes. The broker compares the compressed batch with the topic's
    `max.message.bytes`; one that turns out too large is halved and sent again. Sized by `tuning` if not given. May change from run to run."""
    memory_bytes: Bytes = Field(default=80_000_000, alias="memory", ge=1_000_000)
    """Most bytes of chunks under way in one Spark task. Its Python worker then takes some 450 MB over a long link (measured
    with 13 lanes), 300 MB over a short one."""
    partitions: Literal["all", "share"] | tuple[StrictInt, ...] = "all"
    """Where records without a key go: `all` partitions in turn, chunk by chunk; only those in a list, which every topic of the pipeline
    must have; or `share`: every lane keeps to its own share, so that a slow partition holds up its own lanes only. With `ordering: file`
    each file has one of them."""
    rate_limit: BytesPerSecond | None = Field(default=None, ge=1)
    """Most bytes per second on the wire, over all tasks of a run, to each cluster. See also the cluster's `rate_limit`."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "zstd"
    """Codec of the batches on the wire and in the topic."""
    metadata_wait_seconds: Seconds = Field(default=600.0, alias="metadata_wait", ge=1)
    """How long a chunk may wait for a topic that is unknown, has no leader or may not be written to, before the run fails. Other
    topics do not wait for it."""
    stall_timeout_seconds: Seconds | None = Field(default=None, alias="stall_timeout", ge=1)
    """A ship that reads no line and commits no chunk for so long is stopped, and fails: a file system that does not answer, an expression
    that takes for ever on some line. By default 30m, or 10m more than `metadata_wait` and `transaction_timeout` if that is longer; a
    `rate_limit` that makes chunks slower than that prolongs it."""
    transaction_timeout_seconds: Seconds = Field(default=120.0, alias="transaction_timeout", ge=10, le=900)
    """After this the broker aborts a transaction that nobody ends. Brokers allow 15m at most by default."""
    lease_seconds: Seconds = Field(default=30.0, alias="lease", ge=1, le=86_400)
    """How long a run that has died without a word keeps the next one waiting. Renewed every third of it."""
    lease_wait_seconds: Seconds = Field(default=60.0, alias="lease_wait", ge=0, le=86_400)
    """How long a second run of the same pipeline and cluster waits for the first before it stops and says who holds the lease."""

    @model_validator(mode="after")
    def _sizes_fit_each_other(self) -> Delivery:
        batch, chunk, lanes, memory = self.batch_size_bytes, self.chunk_size_bytes, self.lanes, self.memory_bytes
        if batch and chunk and batch > chunk:
            raise ValueError(
                "`batch_size` is larger than `chunk_size`: a chunk is one transaction, so such a batch could never fill"
            )
        if (chunk or batch or 0) * (lanes or 1) > memory:
            raise ValueError(
                "`lanes` × `chunk_size` is more than `memory`: every lane holds the chunk that it sends, so they would not fit; "
                "raise `memory` or lower one of them"
            )
        if self.stall_timeout_seconds is not None and self.stall_timeout_seconds <= self.longest_wait_seconds:
            raise ValueError(
                "`stall_timeout` is not longer than `metadata_wait` and `transaction_timeout` together: a ship would be stopped while it "
                "rightly waits for a topic; raise it, or lower one of them"
            )
        if isinstance(self.partitions, tuple) and (
            min(self.partitions, default=0) < 0 or len(set(self.partitions)) < len(self.partitions)
        ):
            raise ValueError("`partitions` names a partition twice, or one below 0; they are numbered from 0")
        if self.partitions == ():
            raise ValueError("`partitions` is an empty list: records without a key could go nowhere; name some, or write `all`")
        return self

    @property
    def longest_wait_seconds(self) -> float:
        """How long nothing may move although all is as it should be: a topic is waited for, or a transaction times out."""
        return self.metadata_wait_seconds + self.transaction_timeout_seconds

    @property
    def stall_seconds(self) -> float:
        """After which a ship without progress is stopped."""
        return self.stall_timeout_seconds or max(1800.0, self.longest_wait_seconds + 600.0)
