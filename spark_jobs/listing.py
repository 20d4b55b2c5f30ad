"""Listing the window's files and looking at their beginnings, with the file system clients and
credentials that will read them: Spark's."""

from __future__ import annotations

import fnmatch
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from shipper import runtime
from shipper.config.formats import TABLES
from shipper.config.pipeline import Pipeline, Source
from shipper.config.units import format_duration, listed
from shipper.driver.engine import Listed, ToSum
from shipper.driver.files import UNFINISHED, ListedFile
from shipper.driver.recognition import HEAD_BYTES as FORMAT_BYTES
from shipper.driver.recognition import (
    PLAIN,
    content_problem,
    is_named_as_text,
    recognise,
    recognise_table,
    table_in_text,
)
from shipper.driver.unreadable import cannot_list
from shipper.errors import SourceUnreachable
from shipper.ledger.heads import HEAD_BYTES, head_of
from shipper.report.plan_result import Beginning, PlannedFile, PlanResult
from shipper.terminal import say
from shipper.types import FileId
from shipper.windows.window import Window, to_ms
from spark_jobs import packed
from spark_jobs.hadoop import Hadoop
from spark_jobs.reason import first_line

_LONGEST_PAUSE_SECONDS = 10.0
_SAMPLE_FILES, _SAMPLE_BYTES, _LONG_LINE_BYTES = 4, 98_304, 65_536
#: In place of a format: the last bytes as they are stored (Folder.java).
_TAIL = "tail"
_ARROW_CODECS = {"lz4": "lz4_raw"}
#: As S3A counts them.
_REQUESTS = {
    "LIST": ("object_list_request", "object_continue_list_request"),
    "HEAD": ("action_http_head_request",),
    "GET": ("action_http_get_request",),
}
#: Files that are being written, by their name, which `source.include` does not want; of more it is
#: told how many.
_MOST_UNFINISHED = 1_000
#: Py4J hands a number to Java as a long if it needs one.
_ALWAYS_MS = 2**62


File = TypeVar("File")
Answer = TypeVar("Answer")


class _Head(NamedTuple):
    content: bytes
    whole: Beginning | None
    """All of the file's content, of a small plain file."""


class _Unread(NamedTuple):
    """Reason why a file has no beginning, and whether another run may read it."""

    why: str
    passing: bool
    silent: bool
    """True if the file system does not answer, so that waiting may help."""


class _Patience:
    """Pauses between questions to a file system that does not answer, until ``seconds`` are
    over."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._began, self._end = seconds, 0.0, 0.0

    def waits(self, why: str) -> bool:
        """Wait a while and return True; False if it was waited long enough."""
        now = runtime.monotonic()
        if not self._end and self._seconds:
            self._began, self._end = now, now + self._seconds
            say(f"the source: {why}. It is asked again for {self.shown} (`source.wait`)")
        if now >= self._end:
            return False
        pause = min(_LONGEST_PAUSE_SECONDS, 0.5 + (now - self._began) / 2, self._end - now)
        runtime.sleep(max(pause, 0.0))
        return True

    @property
    def shown(self) -> str:
        return format_duration(self._seconds)


def list_files(
    hadoop: Hadoop,
    paths: Sequence[str],
    pipeline: Pipeline,
    *,
    most: int,
    modified: Window | None = None,
) -> Listed:
    """List the entries under ``paths`` (folders or globs; a missing one holds no entries), each
    file once. A file whose last modification is not in ``modified`` belongs to another window.
    Stops when it has found more than ``most`` that the pipeline includes. A path that cannot be
    listed is a problem of its own. A file system that does not answer is asked again as long as the
    pipeline says. Raises SourceUnreachable if no path can be listed."""
    source = pipeline.source
    wanted = packed.number(len(paths)) + b"".join(map(packed.text, paths))
    since, before = (
        (to_ms(modified.start), to_ms(modified.end)) if modified else (-_ALWAYS_MS, _ALWAYS_MS)
    )
    unfinished = "|".join(_java_regex(f"*{ending}") for ending in UNFINISHED)
    names = "|".join(map(_java_regex, source.include_globs))
    patience = _Patience(source.wait_seconds)
    while True:
        try:
            content = _folder(hadoop).list(
                hadoop.conf,
                wanted,
                source.recursive,
                names,
                unfinished,
                most,
                _MOST_UNFINISHED,
                since,
                before,
            )
        except Exception as error:
            raise cannot_list(pipeline.name, paths, _why(hadoop, error)) from error
        listed, silence = _unpacked(content, paths, source.include_globs, most)
        if not silence or not patience.waits(silence):
            return listed


def _unpacked(
    content: Any, paths: Sequence[str], include: Sequence[str], most: int
) -> tuple[Listed, str]:
    """Return what Folder.java lists, and why its file system does not answer; empty if it does."""
    found = packed.Unpacker(content)
    files = []
    for _ in found:
        path, uri, size, modified_ms = found.text(), found.text(), found.number(), found.number()
        is_open, etag = bool(found.number()), found.text()
        files.append(
            ListedFile(FileId(path, size, modified_ms), uri, paths[found.number()], is_open, etag)
        )
    too_many = len(files) > most and most < sum(
        any(fnmatch.fnmatchcase(file.name, glob) for glob in include) for file in files
    )
    problems, silence = dict[str, str](), ""
    for _ in found:
        path, is_silent = paths[found.number()], found.number()
        problems[path] = found.text()
        silence = problems[path] if is_silent else silence
    now_ms = runtime.time_ns() // 10**6
    for _ in found:
        under, code, count = paths[found.number()], found.text(), found.number()
        first, *more = [found.text() for _ in found]
        files.append(
            ListedFile(
                FileId(first, 0, now_ms), "", under, left=code, count=count, more=tuple(more)
            )
        )
    return Listed(files, too_many=too_many, problems=problems), silence


def _why(hadoop: Hadoop, error: Exception) -> str:
    """Return the reason of a Java error about the source, without names of classes."""
    java = getattr(error, "java_exception", None)
    return str(hadoop.jvm.shipper.lines.Access.whyNotListed(java)) if java else first_line(error)


def _is_silent(hadoop: Hadoop, error: Exception) -> bool:
    java = getattr(error, "java_exception", None)
    return java is not None and bool(hadoop.jvm.shipper.lines.Access.isSilent(java))


def _java_regex(pattern: str) -> str:
    """Return the Java regular expression of a glob on names. Python's ``\\Z`` is the very end;
    Java's lets a line end follow."""
    return fnmatch.translate(pattern).replace(r"\Z", r"\z")


def _folder(hadoop: Hadoop) -> Any:
    return hadoop.jvm.shipper.lines.Folder


def is_missing(hadoop: Hadoop, path: str) -> bool:
    """Return True if nothing lies at ``path``; False for a glob, and where nothing can be asked."""
    if set(path) & set("*?[{\\"):
        return False
    try:
        hadoop_path = hadoop.jvm.org.apache.hadoop.fs.Path(path)
        return not hadoop_path.getFileSystem(hadoop.conf).exists(hadoop_path)
    except Exception:  # the listing has succeeded, so this is only about its words
        return False


def qualified_folder(hadoop: Hadoop, folder: str) -> str:
    """Return ``folder`` in the form in which paths of its files begin, with a slash at its end;
    empty for none. Does not check that it exists."""
    if not folder:
        return ""
    hadoop_path = hadoop.jvm.org.apache.hadoop.fs.Path(folder)
    qualified = hadoop_path.getFileSystem(hadoop.conf).makeQualified(hadoop_path)
    return str(qualified.toString()).rstrip("/") + "/"


def open_file(hadoop: Hadoop, path: str) -> Any:
    """Open a file's bytes as they are stored: Hadoop's FSDataInputStream. Raises Py4JJavaError."""
    return _folder(hadoop).open(hadoop.conf, path)


def look_at(hadoop: Hadoop, files: Sequence[PlannedFile], source: Source) -> None:
    """Note each file's format and head by its first bytes (and of tables its last), whether it
    begins with a byte order mark, and why it cannot be read if so. Costs one open for each, two if
    it is packed or of tables."""
    files, encoding = [file for file in files if file.size_bytes], source.encoding
    if source.format in TABLES:
        _look_at_tables(hadoop, files, source)
        return
    for file, head in zip(files, _heads(hadoop, files, HEAD_BYTES, source, PLAIN), strict=True):
        if isinstance(head, _Unread):
            file.problem, file.passing = head.why, head.passing
            continue
        content = head.content
        file.head = head_of(content)
        found = recognise(file.path, content, source.codec)
        file.format, file.problem, file.bom = (
            found.format,
            found.problem,
            content.startswith(BOM_UTF8),
        )
        if source.format != "whole_file":
            file.problem = file.problem or table_in_text(content)
        if file.format == PLAIN and source.codec != "none":
            file.problem = file.problem or content_problem(content, source.format, encoding)
        if file.format == PLAIN and head.whole:
            file.beginnings = [head.whole]
    unpacked = [file for file in files if file.format != PLAIN and not file.problem]
    for file, head in zip(unpacked, _heads(hadoop, unpacked, HEAD_BYTES, source), strict=True):
        if isinstance(head, _Unread):
            why = head.why if head.passing else f"its beginning cannot be unpacked: {head.why}"
            if not head.passing and is_named_as_text(file.path):
                why += (
                    f". If it is text that only begins like a file of {file.format}, set "
                    "`source.codec: none`"
                )
            file.problem, file.passing = why, head.passing
        else:
            file.head = head_of(head.content)
            file.bom, file.problem = (
                head.content.startswith(BOM_UTF8),
                content_problem(head.content, source.format, encoding),
            )
    if source.format == "whole_file":
        for file in files:
            file.bom = False  # a byte as any other


def _look_at_tables(hadoop: Hadoop, files: Sequence[PlannedFile], source: Source) -> None:
    format = source.format
    heads = _heads(hadoop, files, HEAD_BYTES, source, PLAIN)
    tails = _heads(hadoop, files, FORMAT_BYTES, source, _TAIL)
    for file, head, tail in zip(files, heads, tails, strict=True):
        if isinstance(head, _Unread):
            file.problem, file.passing = head.why, head.passing
        elif isinstance(tail, _Unread):
            file.problem, file.passing = tail.why, tail.passing
        else:
            file.head = head_of(head.content)
            found = recognise_table(format, head.content, tail.content)
            file.format, file.problem = found.format, found.problem


def sum_up(hadoop: Hadoop, files: Sequence[ToSum], source: Source) -> None:
    """Note the sums of the beginnings of files' content, of the given lengths: of tables, of the
    bytes as they are stored; or why a file cannot be read. A file system that does not answer is
    asked again for `source.wait`."""
    found = _ask_patiently(files, source, lambda some: _ask_sums(hadoop, some))
    for (file, _), one in zip(files, found, strict=True):
        if isinstance(one, _Unread):
            file.problem, file.passing = one.why, one.passing
        else:
            file.beginnings += one


def _ask_sums(hadoop: Hadoop, files: Sequence[ToSum]) -> list[list[Beginning] | _Unread]:
    if not files:
        return []
    wanted = bytearray(packed.number(len(files)))
    for file, lengths in files:
        stored = file.format in TABLES
        wanted += _listed(file, PLAIN if stored else file.format or PLAIN)
        wanted += b"".join(map(packed.number, (len(lengths), *sorted(lengths))))
    answer = packed.Unpacker(_folder(hadoop).sums(hadoop.conf, wanted))
    found = list[list[Beginning] | _Unread]()
    for _, lengths in files:
        what, text = answer.number(), answer.text()
        if what != 1:
            found.append(_Unread(text, passing=what > 1, silent=what > 2))
            continue
        *each, all_of_it = text.split(";")
        sums = list[Beginning]()
        for length, one in zip(sorted(lengths), each, strict=True):
            content, ends_line = one.split(" ")
            whole = bool(content) and length == int(all_of_it)
            sums.append(
                Beginning(length=length, sum=content, ends_line=ends_line == "1", whole=whole)
            )
        found.append(sums)
    return found


def look_for(
    hadoop: Hadoop, paths: Sequence[str], wait_seconds: float = 0.0
) -> dict[str, ListedFile | None]:
    """Return the present file at each of ``paths``. Raises SourceUnreachable."""
    wanted, patience = packed.number(len(paths)) + b"".join(map(packed.text, paths)), None
    while True:
        try:
            found = packed.Unpacker(_folder(hadoop).status(hadoop.conf, wanted))
            break
        except Exception as error:
            why, patience = _why(hadoop, error), patience or _Patience(wait_seconds)
            if _is_silent(hadoop, error) and patience.waits(why):
                continue
            raise SourceUnreachable(
                f"it cannot be checked whether {listed(paths, 3)} "
                f"still exists: {why}. Nothing was sent. Run again when this is put right."
            ) from error
    looked = dict[str, ListedFile | None]()
    for path in paths:
        uri, there = found.text(), found.number()
        looked[path] = None
        if there:
            id = FileId(path, found.number(), found.number())
            looked[path] = ListedFile(id, uri, etag=found.text())
    return looked


def take_sample(hadoop: Hadoop, plan: PlanResult, pipeline: Pipeline) -> str:
    """Note the ratio of compression at the beginning of a few files, and whether there is a long
    line. A file that cannot be read is left out. Return why none could be read; empty if one
    could, or none has bytes."""
    source, codec, files = pipeline.source, pipeline.delivery.codec, plan.files
    step = max(1, len(files) // _SAMPLE_FILES)
    chosen = [file.model_copy() for file in files[::step][:_SAMPLE_FILES]]
    look_at(hadoop, chosen, source)
    heads = _heads(hadoop, [file for file in chosen if not file.problem], _SAMPLE_BYTES, source)
    found = [head.content for head in heads if isinstance(head, _Head)]
    size = sum(len(head) for head in found)
    if size == 0:
        faults = [file.problem for file in chosen if file.problem]
        return next(iter([*faults, *(head.why for head in heads if isinstance(head, _Unread))]), "")
    import pyarrow as pa

    packed_size = (
        size
        if codec == "none"
        else sum(
            len(pa.compress(head, _ARROW_CODECS.get(codec, codec), asbytes=True)) for head in found
        )
    )
    ends = b"" if source.format == "whole_file" else b"\n"
    plan.long_lines = any(
        len(record) > _LONG_LINE_BYTES
        for head in found
        for record in (head.split(ends) if ends else [head])
    )
    plan.sample_ratio = size / packed_size
    return ""


def requests(hadoop: Hadoop, bucket: str) -> dict[str, int]:
    """Return how often the object store was asked since this JVM's client was made, by kind of
    request as S3 bills it."""
    found = packed.Unpacker(_folder(hadoop).requests(hadoop.conf, bucket))
    counters = {found.text(): found.number() for _ in found}
    counts = {
        kind: sum(counters.get(name, 0) for name in names) for kind, names in _REQUESTS.items()
    }
    return {kind: count for kind, count in counts.items() if count}


def _heads(
    hadoop: Hadoop,
    files: Sequence[PlannedFile],
    count: int,
    source: Source,
    format: str | None = None,
) -> list[_Head | _Unread]:
    """Return the first ``count`` bytes of each file's content (of its bytes as stored with
    ``format=PLAIN``, the last of these with _TAIL), all if it has fewer; or why not. A file system
    that does not answer is asked again for `source.wait`."""
    return _ask_patiently(files, source, lambda some: _ask_heads(hadoop, some, count, format))


def _ask_patiently(
    files: Sequence[File],
    source: Source,
    ask: Callable[[Sequence[File]], list[Answer | _Unread]],
) -> list[Answer | _Unread]:
    """Ask about files; about those whose file system does not answer, again for `source.wait`."""
    found, patience = ask(files), _Patience(source.wait_seconds)
    while silent := [
        (index, one.why)
        for index, one in enumerate(found)
        if isinstance(one, _Unread) and one.silent
    ]:
        if not patience.waits(silent[0][1]):
            break
        again = ask([files[index] for index, _ in silent])
        for (index, _), one in zip(silent, again, strict=True):
            found[index] = one
    return found


def _ask_heads(
    hadoop: Hadoop, files: Sequence[PlannedFile], count: int, format: str | None
) -> list[_Head | _Unread]:
    if not files:
        return []
    wanted = packed.number(len(files))
    wanted += b"".join(_listed(file, format or file.format or PLAIN) for file in files)
    found = packed.Unpacker(_folder(hadoop).heads(hadoop.conf, wanted, count))
    heads = list[_Head | _Unread]()
    for file in files:
        what, content, summed = found.number(), found.bytes(), found.text()
        unread = what != 1 and _Unread(content.decode(), passing=what > 1, silent=what > 2)
        sum, _, ends_line = summed.partition(" ")
        whole = summed and Beginning(
            length=file.size_bytes, sum=sum, ends_line=ends_line == "1", whole=True
        )
        heads.append(unread or _Head(content, whole or None))
    return heads


def _listed(file: PlannedFile, format: str) -> bytes:
    """Return a file as it was listed, packed."""
    return b"".join(
        [
            *map(packed.text, (file.path, format, file.etag)),
            *map(packed.number, (file.size_bytes, file.modified_ms)),
        ]
    )
