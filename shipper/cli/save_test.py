"""A first file of tests for a pipeline, made of the lines that a preview has shown."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from shipper.cli.samples import read_samples
from shipper.config.cases import cases_path, is_writable, load_cases
from shipper.config.pipeline import Pipeline
from shipper.config.record_mapping import TOO_LARGE
from shipper.config.rules import resolve_uri
from shipper.config.yaml_file import LARGEST_BYTES, LONGEST_TEXT
from shipper.errors import UsageError
from shipper.report.preview_result import PreviewedLine, SampleToRead
from shipper.report.tested import moment
from shipper.whole_files import output_file, refuse_existing

#: Formats whose records are the text of the file. For other formats a copy of the file is kept.
_TEXTS = ("text", "jsonl")
_LARGEST_FILE_BYTES = 1_000_000
#: The preview shows only the beginning of a longer line.
_CUT_BYTES = 65_536
_NO_UTF8 = re.compile(r"\\x[89a-f][0-9a-f]")
_HEAD = """\
# yaml-language-server: $schema=../schema/tests.json
#
# Written by `shipper preview --save-test`: what the pipeline makes of these lines now. Read it, and change what is not as it should be.
# Every key is explained in ../schema/REFERENCE.md; what an entry leaves out is not compared.
"""  # noqa: E501


def refuse_second(config_dir: Path, name: str) -> None:
    """Raise UsageError if the pipeline has a file of tests, which must not be overwritten."""
    refuse_existing(cases_path(config_dir, name))


def save_test(
    config_dir: Path, pipeline: Pipeline, lines: Sequence[PreviewedLine], cluster: str | None
) -> tuple[Path, int, list[str]]:
    """Write ``tests/NAME.yaml`` with a case for each file of the preview. Return the file, the
    number of cases, and the lines that are not in it, and why. Raise UsageError if that is
    impossible, and leave nothing behind then."""
    file, left_out = cases_path(config_dir, pipeline.name), list[str]()
    samples = _samples(pipeline, lines, cluster, left_out)
    if not samples:
        why = f" ({', '.join(left_out[:3])})" if left_out else ""
        raise UsageError(f"no test was written: there is no line to write{why}.", code="SHIP-113")
    cases, files = dict[str, Any](), dict[Path, bytes | Path]()
    all_read = read_samples(config_dir, list(samples.values()))
    for (name, sample), read in zip(samples.items(), all_read, strict=True):
        if read.error:
            raise UsageError(f"no test was written: {sample.path}: {read.error}", code="SHIP-113")
        case = {"path": _portable(config_dir, sample.path), "cluster": sample.cluster}
        if not isinstance(sample.content, bytes):
            case["file"] = f"{pipeline.name}/{name}"
        elif len(text := sample.content.decode(pipeline.source.encoding)) > LONGEST_TEXT:
            case["file"] = f"{pipeline.name}/{name}.txt"  # not packed, whatever its name was
        else:
            case["lines"] = text
        if beside := case.get("file"):
            files[file.parent / beside] = sample.content
        expect = [_expectation(pipeline, line) for line in read.lines]
        cases[name] = {key: of for key, of in case.items() if of} | {"expect": expect}
    _write(config_dir, file, _HEAD + yaml_text({"cases": cases}), files)
    return file, len(samples), left_out


def _samples(
    pipeline: Pipeline, lines: Sequence[PreviewedLine], cluster: str | None, left_out: list[str]
) -> dict[str, SampleToRead]:
    """Return the sample of each file by the name of its case."""
    found: dict[str, SampleToRead] = {}
    for path, group in groupby(lines, lambda line: line.file):
        content: bytes | Path
        if pipeline.source.format in _TEXTS:
            kept = _kept(group, pipeline.source.encoding, left_out)
            text = "".join(f"{line.line}\n" for line in kept)
            content = text.encode(pipeline.source.encoding) if text else b""
        else:
            content = _local_file(path)
        if content:
            name = _free_name(path.rpartition("/")[2], found)
            found[name] = SampleToRead(
                pipeline=pipeline.name, cluster=cluster, path=path, content=content
            )
    return found


def _kept(
    lines: Iterator[PreviewedLine], encoding: str, left_out: list[str]
) -> Iterator[PreviewedLine]:
    """Yield lines that a text can hold as they are; name the others in ``left_out``."""
    for line in lines:
        why = None
        if line.why == TOO_LARGE or len(line.line.encode()) >= _CUT_BYTES:
            why = "too long"
        elif _NO_UTF8.search(line.line):
            why = "perhaps not UTF-8"
        elif not is_writable(line.line, encoding):
            why = f"cannot be written in {encoding}"
        if why is None:
            yield line
        else:
            left_out.append(f"{line.file.rpartition('/')[2]}:{line.record} ({why})")


def _local_file(uri: str) -> Path:
    """Return the path of a file on this machine. Raises UsageError if there is none, or if it is
    too large to be kept."""
    path = Path("/" + uri.removeprefix("file:").lstrip("/"))
    what = "a test keeps a copy of the file, because its records are not lines"
    if not uri.startswith(("file:/", "/")) or not path.is_file():
        raise UsageError(
            f"no test was written: {uri}: {what}. Fetch the file, and name the copy with --file.",
            code="SHIP-113",
        )
    if (size := path.stat().st_size) > _LARGEST_FILE_BYTES:
        raise UsageError(
            f"no test was written: {uri}: {what}, and {size:,} bytes are too many. Cut the "
            f"file to {_LARGEST_FILE_BYTES:,} bytes at most, and name it with --file.",
            code="SHIP-113",
        )
    return path


def _portable(config_dir: Path, uri: str) -> str:
    """Write a path below the folder of the project as `path` of a case may: without that folder."""
    path = re.sub("^file:/+", "/", uri)
    return path.removeprefix(resolve_uri(config_dir, "").rstrip("/") + "/")


def _free_name(name: str, taken: dict[str, SampleToRead]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{number}-{name}"
    return found


def _expectation(pipeline: Pipeline, line: PreviewedLine) -> dict[str, Any]:
    """Return the keys and values of the entry for ``line``."""
    if line.outcome != "shipped":
        found: dict[str, Any] = {line.outcome: line.why}
        if line.outcome == "quarantined" and line.value is not None:
            found["value"] = line.value
    else:
        time = None if line.timestamp_ms is None else moment(line.timestamp_ms)
        made = {
            "key": pipeline.records.key is not None,
            "value": True,
            "timestamp": pipeline.records.timestamp is not None,
        }
        found = {"topic": line.topic, "key": line.key, "value": line.value, "timestamp": time}
        without = [name for name, is_made in made.items() if is_made and found[name] is None]
        found = {name: value for name, value in found.items() if value is not None}
        if without:
            found["without"] = without
        if pipeline.records.headers:
            found["headers"] = line.headers
    return {
        name: value
        for name, value in found.items()
        if not isinstance(value, str) or len(value) <= LONGEST_TEXT
    }


def yaml_text(document: Any) -> str:
    """Write a document so that YAML reads each text in it as it is."""
    yaml, written = YAML(), io.StringIO()
    yaml.width = LARGEST_BYTES
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(_styled(document), written)
    return written.getvalue()


def _styled(value: Any) -> Any:
    """Return lines as a block, one row each, and texts that cannot stand as they are with
    escapes."""
    if isinstance(value, dict):
        return {_styled(key): _styled(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_styled(one) for one in value]
    rows = value.removesuffix("\n").split("\n")
    plain = all(row.replace("\t", "").isprintable() for row in rows)
    if value.endswith("\n") and plain and rows[0] == rows[0].strip() != "" and rows[-1].strip():
        return LiteralScalarString(value)
    return value if value.isprintable() else DoubleQuotedScalarString(value)


def _write(config_dir: Path, file: Path, text: str, files: dict[Path, bytes | Path]) -> None:
    """Write all files, or none."""
    if len(text.encode()) > LARGEST_BYTES:
        raise UsageError(
            f"no test was written: it would have {len(text.encode()):,} bytes, and at most "
            f"{LARGEST_BYTES:,} are allowed. Ask for fewer lines with --lines.",
            code="SHIP-113",
        )
    written: list[Path] = []
    try:
        for path, content in {**files, file: text.encode()}.items():
            with output_file(path) as part:
                if isinstance(content, Path):
                    shutil.copyfile(content, part)
                else:
                    part.write_bytes(content)
            written.append(path)
        load_cases(config_dir, file.stem)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (file.parent / file.stem).rmdir()
        raise
