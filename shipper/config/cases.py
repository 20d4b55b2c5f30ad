"""``config/tests/NAME.yaml``: sample lines of pipeline NAME, and the expected records.

`shipper test` reads the lines as a run would and compares. It needs no secret, since a fixed key
replaces each key in `records.redact`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field, Secret, field_validator, model_validator

from shipper.config.environment import EVERYTHING
from shipper.config.explain import validated
from shipper.config.load import Folder, LoadedConfig, load_pipeline
from shipper.config.pipeline import Pipeline
from shipper.config.rules import SCHEME, Fault, Model, refuse, resolve_uri, suggestion
from shipper.config.units import Moment
from shipper.config.yaml_file import ConfigFault, YamlFile, in_order
from shipper.errors import ConfigError

MOST_RECORDS = 1_000
"""A sample has at most so many. More are no example that a person reads."""
#: Replaces the key of each hash: tests give the same result on every machine, and need no secret.
_KEY = "a key for tests, and no secret"


class Expectation(Model):
    """Expected outcome of one record. Keys that are left out are not compared. A record must be
    shipped unless `dropped`, `quarantined` or `fails` says otherwise."""

    topic: str | None = None
    """Topic that gets the record."""
    key: str | None = None
    """Key of the record. Bytes that are not UTF-8 are written as `shipper preview` shows them,
    `\\xff`; so are those of other fields."""
    value: str | None = None
    """Value of the record, or what the quarantine topic gets of it. With `records.avro` the JSON
    of the value."""
    headers: dict[str, str] | None = None
    """Headers of the record, all of them; `{}`: it has none."""
    timestamp: Moment | None = None
    """Time of the record, UTC unless it says otherwise, to the millisecond."""
    without: tuple[Literal["key", "value", "timestamp"], ...] = ()
    """Fields that the record must not have: `[value]` expects a tombstone."""
    dropped: str | None = Field(default=None, min_length=1, examples=["health_checks"])
    """Rule of `records.drop` that must drop the record."""
    quarantined: str | None = Field(
        default=None, min_length=1, examples=["unparseable", "not_null(price)"]
    )
    """Reason for which the record must go to quarantine."""
    fails: str | None = Field(default=None, min_length=1, examples=["unparseable"])
    """Reason for which the record must fail the run, of a pipeline without `quarantine`."""

    @model_validator(mode="after")
    def _one_outcome(self) -> Expectation:
        refuse(self._faults())
        return self

    def _faults(self) -> Iterator[Fault]:
        given = [name for name in ("dropped", "quarantined", "fails") if getattr(self, name)]
        for name in given[1:]:
            yield (name,), f"contradicts `{given[0]}`: a record has one outcome; keep one of them"
        fields = ("topic", "key", "value", "headers", "timestamp", "without")
        has = ("topic", "value") if given == ["quarantined"] else () if given else fields
        for name in fields:
            if getattr(self, name) not in (None, ()) and name not in has:
                yield (name,), f"contradicts `{given[0]}`: such a record has no `{name}` to compare"
        for name in self.without:
            if getattr(self, name, None) is not None:
                yield ("without",), f"contradicts `{name}`; keep one of them"

    @property
    def why(self) -> str | None:
        """Expected rule or reason; None of a record that must be shipped."""
        return self.dropped or self.quarantined or self.fails

    @property
    def outcome(self) -> Literal["shipped", "dropped", "quarantined", "fails"]:
        """The expected outcome, as `shipper preview` names it."""
        if self.dropped:
            return "dropped"
        return "quarantined" if self.quarantined else "fails" if self.fails else "shipped"


class Case(Model):
    """Sample lines and their expected records."""

    lines: str | None = Field(default=None, min_length=1)
    """Content of the sample as text, best in a block (`lines: |`), in the encoding of the
    pipeline's files, and not packed. This or `file`."""
    file: str | None = Field(default=None, min_length=1, examples=["web_access/odd.log.gz"])
    """Path of a sample file, relative to the folder of the tests. It may have any bytes, format and
    compression that the pipeline reads."""
    path: str | None = Field(
        default=None, min_length=1, examples=["s3a://logs/web/2026/11/01/06/web-01.log"]
    )
    """Path under which the sample counts as read, for `file_path`, `file_name` and `window_start`.
    Nothing is read there. By default `/lines`, or `/` and `file`."""
    cluster: str | None = None
    """One of the pipeline's clusters: the records as this cluster gets them. By default those of
    the pipeline's own routes."""
    expect: tuple[Expectation, ...]
    """One entry for each record of the sample, in its order, also for those that are dropped."""

    @field_validator("file")
    @classmethod
    def _beside(cls, value: str | None) -> str | None:
        parts = PurePosixPath(value or "").parts
        if value and (SCHEME.match(value) or parts[:1] == ("/",) or ".." in parts):
            raise ValueError("write a path below the folder of the tests, such as web/odd.log")
        return value

    @model_validator(mode="after")
    def _one_sample(self) -> Case:
        if (self.lines is None) == (self.file is None):
            raise ValueError("a case has either `lines` or a `file`")
        return self

    def shown_path(self, config_dir: Path) -> str:
        """Return the absolute path or URI under which the sample counts as read."""
        return resolve_uri(config_dir, self.path or f"/{self.file or 'lines'}")


class PipelineTests(Model):
    """Tests of the pipeline that has the same name as the file. `shipper test` runs them, without a
    cluster; `shipper preview --save-test` writes a first file."""

    cases: dict[str, Case] = Field(min_length=1)
    """Name of a case → the case. The name says what the case shows."""


@dataclass(frozen=True)
class CaseFile:
    """One file of tests, without a fault."""

    yaml: YamlFile
    folder: Path
    """The folder that `file` of a case is relative to."""
    pipeline: Pipeline
    """Pipeline as :func:`load_pipeline_to_test` loads it."""
    cases: dict[str, Case]

    def sample(self, case: str) -> bytes | Path:
        """Return the content of a case's sample, or the file that has it."""
        found = self.cases[case]
        if found.file is not None:
            return self.folder / found.file
        return (found.lines or "").encode(self.pipeline.source.encoding)

    def place(self, case: str, *below: str | int) -> str:
        """Return file, line and column of a case or of something in it, for people and for
        editors."""
        line, column = self.yaml.position(("cases", case, *below))
        return f"{self.yaml.shown}:{line}:{column}"


def cases_path(config_dir: Path, pipeline: str) -> Path:
    """Return the path of the pipeline's file of tests."""
    return _tests(config_dir).path(pipeline)


def _tests(config_dir: Path) -> Folder[PipelineTests]:
    return Folder(config_dir, PipelineTests)


def load_pipeline_to_test(config_dir: Path, name: str) -> Pipeline:
    """Load a pipeline, whatever is known of the secrets that it names. A fixed key stands for each
    key of `records.redact`. Raises ConfigError."""
    found = load_pipeline(config_dir, name, EVERYTHING)
    rules = []
    for rule in found.records.redact:
        if rule.hash_ is not None:
            hashed = rule.hash_.model_copy(update={"key": Secret[str | None](_KEY)})
            rule = rule.model_copy(update={"hash_": hashed})
        rules.append(rule)
    records = found.records.model_copy(update={"redact": tuple(rules)})
    return found.model_copy(update={"records": records})


def load_cases(config_dir: Path, name: str) -> CaseFile:
    """Load ``tests/NAME.yaml`` and its pipeline. Raises ConfigError with all faults of the file."""
    pipeline, tests = load_pipeline_to_test(config_dir, name), _tests(config_dir)
    if not tests.path(name).exists():
        raise ConfigError(
            f"{tests.show(name)} does not exist, so pipeline {name!r} has no tests. Write a first "
            f"one with `shipper preview {name} --save-test`.",
            code="SHIP-113",
        )
    found = _read(tests, pipeline)
    if isinstance(found, list):
        raise ConfigError("\n".join(map(str, found)), code="SHIP-204")
    return found


def case_faults(
    config_dir: Path, loaded: LoadedConfig, pipeline: str | None = None
) -> list[ConfigFault]:
    """Return the faults of the tests: of one ``pipeline``, or of all, with those of no pipeline."""
    tests = _tests(config_dir)
    names = [pipeline] if pipeline else tests.stems()
    faults = [] if pipeline else [fault for _, fault in tests.misnamed()]
    for name in names:
        if (path := tests.path(name)).exists() and name in loaded.pipelines:
            read = _read(tests, loaded.pipelines[name])
            faults += read if isinstance(read, list) else []
        elif path.exists() and name not in loaded.broken:
            known = suggestion(name, [*loaded.pipelines], "there are")
            why = f"there is no pipeline {name!r} to test{known}; rename or delete the file"
            faults.append(ConfigFault.of_file(tests.show(name), why))
    return faults


def _read(tests: Folder[PipelineTests], pipeline: Pipeline) -> CaseFile | list[ConfigFault]:
    """Read the tests of ``pipeline``. Return their faults if there are any."""
    file, folder = tests.file(pipeline.name), tests.path(pipeline.name).parent
    faults, found = list(file.faults), None
    if file.parsed:
        found, more = validated(PipelineTests, file, faults)
        faults += more
    for name, case in found.cases.items() if found else ():
        for place, why in _faults(case, pipeline, folder):
            faults.append(file.fault(("cases", name, *place), why))
    if faults or found is None:
        return [*in_order(faults)]
    return CaseFile(file, folder, pipeline, found.cases)


def is_writable(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (LookupError, UnicodeError):
        return False
    return True


def _faults(case: Case, pipeline: Pipeline, folder: Path) -> Iterator[Fault]:
    """Yield expectations that contradict the pipeline or name missing parts of it."""
    if case.file is not None:
        sample = folder / case.file
        if not sample.resolve().is_relative_to(folder.resolve()):
            yield ("file",), "the link leads out of the folder of the tests; copy the file into it"
        elif not sample.is_file():
            yield ("file",), f"no such file: {sample}"
    if case.lines is not None:
        encoding = pipeline.source.encoding
        if not is_writable(case.lines, encoding):
            yield ("lines",), f"the text cannot be written in {encoding}; put it into a `file`"
    if case.cluster is not None and case.cluster not in pipeline.clusters:
        known = suggestion(case.cluster, list(pipeline.clusters), "the pipeline has")
        yield ("cluster",), f"the pipeline does not ship to {case.cluster!r}{known}"
    for index, expected in enumerate(case.expect):
        if expected.dropped and expected.dropped not in pipeline.records.drop:
            known = suggestion(expected.dropped, list(pipeline.records.drop), "there are")
            yield (
                ("expect", index, "dropped"),
                f"`records.drop` has no rule {expected.dropped!r}{known}",
            )
        if expected.quarantined and pipeline.quarantine is None:
            why = "the pipeline has no `quarantine`; write `fails`"
            yield ("expect", index, "quarantined"), why
        if expected.fails and pipeline.quarantine is not None:
            why = "the pipeline has `quarantine`; write `quarantined`"
            yield ("expect", index, "fails"), why


def pipelines_with_tests(config_dir: Path) -> list[str]:
    """Return the names of the pipelines that have a file of tests, in their order. Raises
    ConfigError for a file that would be ignored."""
    tests = _tests(config_dir)
    if ignored := [str(fault) for _, fault in tests.misnamed()]:
        raise ConfigError("\n".join(ignored), code="SHIP-204")
    return tests.stems()
