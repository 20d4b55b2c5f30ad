"""Result of `shipper preview`: lines as they were read, and the records that they would become. The
one result with log lines in it, and kept nowhere. `shipper test` compares the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from shipper.finding import Finding
from shipper.report.run_folder import Result, StepResult


class PreviewedLine(Result):
    """Text of a value: bytes are shown as UTF-8, invalid ones as ``\\xff``; of very long values the
    first 64 kB."""

    file: str
    record: int
    """Number of the record in the file's first split, from 1."""
    line: str
    """Line as it was read."""
    outcome: Literal["shipped", "dropped", "quarantined", "fails"]
    """`fails`: it cannot be shipped, and there is no `quarantine`."""
    why: str | None = None
    """The rule or the reason."""
    fault: str | None = None
    """Fault of the record, if more than the reason is known."""
    topic: str | None = None
    """Topic; None: it goes to no topic."""
    value: str | None = None
    key: str | None = None
    headers: dict[str, str] = {}
    timestamp_ms: int | None = None

    @property
    def why_in_full(self) -> str | None:
        return f"{self.why}: {self.fault}" if self.fault else self.why


class PreviewResult(StepResult):
    step: str = "preview"
    files: int = 0
    """Number of the window's files; lines of a few of them are shown."""
    lines: list[PreviewedLine] = []
    findings: list[Finding] = []


class SampleToRead(Result):
    """A sample of a test, to be read as a pipeline would."""

    pipeline: str
    cluster: str | None = None
    """Cluster; None: by the pipeline's own routes."""
    path: str
    """Path or URI that its records name."""
    content: Annotated[bytes | Path, Field(exclude=True)] = b""
    """Text as it is, or the file that has it."""
    file: str = ""
    """File with the content, for the process that reads it."""
    is_text: bool = False
    """True if the file holds plain text, however the pipeline's files are packed."""


class ReadSample(Result):
    """Records of a sample, or the reason why it has none."""

    lines: list[PreviewedLine] = []
    error: str | None = None
    """Reason why it could not be read: a run would fail, too."""
    wrong: bool = False
    """True if the configuration is wrong, and not the sample."""
