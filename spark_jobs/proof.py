"""The Spark job that proves what a file is: it reads files as a ship would, and sums up their
records. It sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.driver.dispositions import fixed_topics, rules
from shipper.driver.engine import Proof, ToProve
from shipper.driver.files import split_hash
from shipper.driver.formats import PLAIN
from shipper.driver.pieces import FilePiece, broken_files, file_pieces, piece_at, uri_of
from shipper.worker.order import Part, ProofOrder, SplitToProve
from shipper.worker.receipt import SplitSums
from spark_jobs.frame import records
from spark_jobs.reader import LineLimits, reading
from spark_jobs.sink import sum_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: In place of the first byte of a split, in the hash by which rows of a whole file are known.
_NO_START = -1
_COLUMNS = ("split", "value", "checksum", "topic", "disposition", "size")


def prove(
    spark: SparkSession,
    pipeline: Pipeline,
    cluster: Cluster,
    schema_ids: Mapping[str, int],
    wanted: Sequence[ToProve],
) -> list[Proof]:
    """Read each file once for each URI that it is wanted under. Raises what Spark raises."""
    pieces: dict[int, FilePiece] = {}
    parts: dict[int, list[Part]] = {}
    places: list[dict[int, tuple[int, int]]] = []
    for one in wanted:
        place = {}
        for piece in _pieces(one, pipeline.split_size_bytes):
            pieces.setdefault(piece.split, piece)
            there = parts.setdefault(piece.split, [])
            place[piece.start] = piece.split, len(there)
            there += one.parts.get(piece.start, ())
        places.append(place)
    source = pipeline.source
    order = ProofOrder(
        {
            split: SplitToProve(
                tuple(parts[split]),
                bom=piece.start == 0 and piece.file.bom and pipeline.restores_bom,
                counts_bytes=piece.file.format == PLAIN and source.verbatim,
                skipped_bytes=3 if piece.start == 0 and piece.file.bom and source.verbatim else 0,
            )
            for split, piece in pieces.items()
        },
        fixed_topics(pipeline),
        len(rules(pipeline)),
        pipeline.quarantine.keep_bytes if pipeline.quarantine else 0,
    )
    chosen, size = list(pieces.values()), pipeline.split_size_bytes
    with reading(spark, chosen, LineLimits.of(pipeline), partition_bytes=size, ends=True) as read:
        frame = records(read.frame, pipeline, None, cluster.reserved_topics, schema_ids)
        frame = frame.select(*[name for name in _COLUMNS if name in frame.columns])
        found = sum_up(frame, order)
        broken_files(chosen, read.reports())
    return [_proof(one, place, found, pieces) for one, place in zip(wanted, places, strict=True)]


def _pieces(one: ToProve, split_size_bytes: int) -> Iterable[FilePiece]:
    if not one.whole:
        return file_pieces([one.file], split_size_bytes)
    file = one.file  # it may be read by its splits as well, for another of its originals
    return [
        replace(
            piece_at(file, 0, max(1, file.size_bytes)),
            split=split_hash(uri_of(file), file.id, _NO_START),
        )
    ]


def _proof(
    one: ToProve,
    place: Mapping[int, tuple[int, int]],
    found: Mapping[int, SplitSums],
    pieces: Mapping[int, FilePiece],
) -> Proof:
    splits = {}
    for start, (split, first) in place.items():
        end, sums = first + len(one.parts.get(start, ())), found.get(split, SplitSums())
        splits[start] = SplitSums(
            sums.lines, sums.ended, sums.read, sums.counts[first:end], sums.checksums[first:end]
        )
    read = next((pieces[split].file for split, _ in place.values()), one.file)
    return Proof(splits, read.problem, read.passing)
