"""Listing the window's files, with the file system clients and credentials that will read them: Spark's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import AnalysisException

from shipper.delivery.preflight import Sample
from shipper.errors import SourceError
from shipper.plan.files import ListedFile
from shipper.terms import FileId
from spark_jobs.session import MAX_PARTITION_BYTES, setting

_UTF8_BOM = b"\xef\xbb\xbf"
_OPEN_AT_ONCE = 16
_SAMPLE_FILES, _SAMPLE_BYTES, _LONG_LINE_BYTES = 4, 98_304, 65_536
_ARROW_CODECS = {"lz4": "lz4_raw"}


def list_files(spark: SparkSession, paths: Sequence[str], *, recursive: bool) -> list[ListedFile]:
    """Files under ``paths`` (folders or globs; one that does not exist holds none). Hidden files (``_…``, ``.…``) are left out.

    The listing is Spark's own, for a source that reads no content as long as nobody asks for it. Raises SourceError.
    """
    there = [path for path in paths if _exists(spark, path)]
    if not there:
        return []
    folders = {found for path in there for found in _qualified(spark, path)}
    try:
        # binaryFile never cuts a file; packed by size, as text is, every file would be a task of its own.
        with setting(spark, MAX_PARTITION_BYTES, 2**62):
            frame = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(there))
            # Microseconds since the epoch would need no time zone, milliseconds are what the file system has.
            modified_ms = F.unix_millis("modificationTime").alias("modified_ms")
            rows = frame.select("path", "length", modified_ms, F.col("_metadata.file_path").alias("uri")).collect()
    except Exception as error:
        raise SourceError(f"cannot list {', '.join(there)}: {first_line(error)}. Check the path and the credentials.") from error
    files = [ListedFile(FileId(row.path, row.length, row.modified_ms), row.uri) for row in rows]
    if recursive:
        return files
    return [file for file in files if file.id.path.rsplit("/", 1)[0] in folders or file.id.path in folders]


def _exists(spark: SparkSession, path: str) -> bool:
    try:
        return bool(_glob(spark, path))
    except Exception as error:
        raise SourceError(
            f"cannot look at {path}: {first_line(error)}. Check the path, the scheme and the credentials."
        ) from error


def _glob(spark: SparkSession, path: str) -> Any:
    hadoop_path = spark._jvm.org.apache.hadoop.fs.Path(path)
    return hadoop_path.getFileSystem(spark._jsc.hadoopConfiguration()).globStatus(hadoop_path)


def _qualified(spark: SparkSession, path: str) -> set[str]:
    return {status.getPath().toString() for status in _glob(spark, path)}


def files_with_bom(spark: SparkSession, paths: Sequence[str]) -> set[str]:
    """Those of ``paths`` whose (decompressed) content begins with a UTF-8 byte order mark.

    Hadoop's line reader drops the mark from the first line of a file, and there is no setting against it; so the sink has to
    know where to put it back. Costs one open and three bytes per file.
    """
    with _Heads(spark) as heads:
        return {path for path, found in heads.read(paths, len(_UTF8_BOM)) if found == _UTF8_BOM}


def take_sample(spark: SparkSession, paths: Sequence[str], codec: str) -> Sample:
    """Looks at the beginning of a few files. ``codec``: with which records will be compressed. Raises SourceError."""
    chosen = paths[:: max(1, len(paths) // _SAMPLE_FILES)][:_SAMPLE_FILES]
    with _Heads(spark) as heads:
        found = [head for _, head in heads.read(chosen, _SAMPLE_BYTES)]
    size = sum(len(head) for head in found)
    if size == 0:
        return Sample()
    packed = (
        size if codec == "none" else sum(len(pa.compress(head, _ARROW_CODECS.get(codec, codec), asbytes=True)) for head in found)
    )
    return Sample(size / packed, any(len(line) > _LONG_LINE_BYTES for head in found for line in head.split(b"\n")))


class _Heads:
    """The first bytes of files, decompressed, read with Hadoop's clients."""

    def __init__(self, spark: SparkSession) -> None:
        self._hadoop = spark._jvm.org.apache.hadoop
        self._conf = spark._jsc.hadoopConfiguration()
        self._codecs = self._hadoop.io.compress.CompressionCodecFactory(self._conf)
        self._pool = ThreadPoolExecutor(_OPEN_AT_ONCE)

    def __enter__(self) -> _Heads:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def read(self, paths: Sequence[str], count: int) -> Iterator[tuple[str, bytes]]:
        """(path, its first ``count`` bytes, or all if it has fewer). Raises SourceError."""
        return zip(paths, self._pool.map(lambda path: self._read_one(path, count), paths), strict=True)

    def _read_one(self, path: str, count: int) -> bytes:
        try:
            hadoop_path = self._hadoop.fs.Path(path)
            with closing(hadoop_path.getFileSystem(self._conf).open(hadoop_path)) as stream:
                codec = self._codecs.getCodec(hadoop_path)
                content = stream if codec is None else codec.createInputStream(stream)
                return bytes(content.readNBytes(count))
        except Exception as error:
            raise SourceError(
                f"{path} cannot be read: gone, not permitted, or corrupt ({first_line(error)}). Nothing was sent; repair or remove the file."
            ) from error


def first_line(error: Exception) -> str:
    """The sentence of a Spark or Py4J error that people can use, without the JVM's stack."""
    java = getattr(error, "java_exception", None)
    if java is not None:
        while java.getCause() is not None:
            java = java.getCause()
        return str(java.toString()).splitlines()[0]
    if isinstance(error, AnalysisException):
        return (error.getMessage() or str(error)).splitlines()[0]
    return str(error).splitlines()[0] if str(error) else type(error).__name__
