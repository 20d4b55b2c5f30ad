"""Runs the tests of one mutant in a copy of the tree."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_SHORT = ("tests/unit/", "tests/property/", "tests/sim/")
_SHORT_SECONDS, _LONG_SECONDS = 120.0, 900.0
_JAR, _BUILD_JAR = "spark_jobs/jars/shipper-lines.jar", "jvm/build.py"
#: Looking for plugins takes a third of a unit test's time. Random tests take the same examples each
#: time.
_PLUGINS = (
    "-p",
    "no:cacheprovider",
    "-p",
    "pytest_timeout",
    "-p",
    "_hypothesis_pytestplugin",
    "--hypothesis-seed=0",
)
#: A test that ends with one of these has met broken code, not a missing rule.
_BROKEN_CODE = (
    "ImportError",
    "ModuleNotFoundError",
    "NameError",
    "SyntaxError",
    "IndentationError",
    "UnboundLocalError",
)


class MutantDrifted(Exception):
    """The product was changed, so a mutant does not apply any more."""


@dataclass(frozen=True)
class Mutant:
    """One rule, and how to remove it."""

    name: str
    invariant: str
    """The beginning of the rule's first cell in DESIGN's table."""
    file: str
    text: str
    """Stands in ``file`` exactly once."""
    replacement: str
    test: str
    """Node id of the test that must fail."""

    @property
    def is_short(self) -> bool:
        """True if the test starts no server."""
        return self.test.startswith(_SHORT)

    def applied_to(self, source: str) -> str:
        """Return ``source`` without the rule. Raises MutantDrifted."""
        if (count := source.count(self.text)) != 1:
            raise MutantDrifted(
                f"mutant {self.name}: its text stands {count} times in {self.file}, not once. The "
                "rule was rewritten: bring tests/mutants/table.py up to date."
            )
        changed = source.replace(self.text, self.replacement)
        if self.file.endswith(".py"):
            try:
                ast.parse(changed)
            except SyntaxError as error:
                raise MutantDrifted(
                    f"mutant {self.name}: {self.file} does not compile with it: {error}"
                ) from error
        return changed


class Outcome(Enum):
    """Outcome of a test."""

    PASSED = "passed"
    FAILED = "failed"
    """By an assertion, or by an error that the test's own call raised."""
    BROKEN = "broken"
    """It was not collected, its fixtures failed, or it met code that cannot run."""
    SKIPPED = "skipped"
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Result:
    """An outcome, with the first line of the reason."""

    outcome: Outcome
    reason: str
    seconds: float


class TreeCopy:
    """A copy of the tree, in which one mutant at a time is applied."""

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def of_checkout(cls, root: Path, folder: Path) -> TreeCopy:
        """Copy every file that git knows or would add. Raises CalledProcessError if ``root`` is no
        checkout."""
        listed = [
            "git",
            "-C",
            str(root),
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]
        for name in subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split(
            "\0"
        ):
            if name and (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        (folder / ".venv").symlink_to((root / ".venv").resolve())
        return cls(folder)

    def again(self, folder: Path) -> TreeCopy:
        """Return a copy of this copy, with its compiled modules."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return TreeCopy(folder)

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Apply ``mutant`` until the block ends. Raises MutantDrifted, CalledProcessError if Java
        refuses it."""
        path, jar = self.folder / mutant.file, self.folder / _JAR
        is_java = mutant.file.endswith(".java")
        before = {
            each: (each.read_bytes(), each.stat()) for each in ([path, jar] if is_java else [path])
        }
        try:
            path.write_text(mutant.applied_to(path.read_text()))
            # Python takes a compiled module for current if the source has the size and the second
            # that it had.
            _date(path, before[path][1], later_seconds=10)
            if is_java:
                build = [sys.executable, str(self.folder / _BUILD_JAR)]
                subprocess.run(
                    build, check=True, capture_output=True, env=self._environment(), cwd=self.folder
                )
            yield
        finally:
            for each, (content, status) in before.items():
                each.write_bytes(content)
                _date(each, status)

    def run(self, tests: Sequence[str], *, is_first: bool = False) -> dict[str, Result]:
        """Run ``tests`` in one process. The first run keeps compiled modules for later runs; later
        runs end at the first failure."""
        report = self.folder / ".mutants.xml"
        report.unlink(missing_ok=True)
        short = all(test.startswith(_SHORT) for test in tests)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"--junitxml={report}",
            *_PLUGINS,
            *([] if is_first else ["-x"]),
            *tests,
        ]
        began = time.monotonic()
        try:
            limit = (_SHORT_SECONDS if short else _LONG_SECONDS) * len(tests)
            said = _said(command, self.folder, self._environment(compile_modules=is_first), limit)
        except subprocess.TimeoutExpired as error:
            return {
                test: Result(
                    Outcome.TIMED_OUT, f"no end within {error.timeout:.0f} s", error.timeout
                )
                for test in tests
            }
        seconds = time.monotonic() - began
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
        return {test: _result(test, cases, said, seconds) for test in tests}

    def _environment(self, *, compile_modules=False):
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
        }
        path = os.pathsep.join([str(self.folder), str(self.folder / "tools")])
        compiled = {"PYTHONDONTWRITEBYTECODE": "" if compile_modules else "1"}
        return inherited | compiled | {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def _date(path, status, later_seconds=0):
    at = status.st_mtime_ns + later_seconds * 10**9
    os.utime(path, ns=(at, at))


def _said(command, folder, environment, seconds):
    """Run ``command`` and return its output. Raises TimeoutExpired, with all of its
    processes gone."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=seconds)[0]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def _result(test, cases, said, seconds):
    path, *names = test.partition("[")[0].removesuffix("/").split("::")
    module = ".".join([path.removesuffix(".py").replace("/", "."), *names[:-1]])
    own = [
        case
        for case in cases
        if case.get("classname") == module and case.get("name", "").partition("[")[0] == names[-1]
    ]
    failures, errors, skips = (
        [mark for case in own for mark in case.iter(kind)]
        for kind in ("failure", "error", "skipped")
    )
    if failures:
        why = _first_line(failures[0])
        return Result(
            Outcome.BROKEN if why.startswith(_BROKEN_CODE) else Outcome.FAILED, why, seconds
        )
    if errors:
        return Result(Outcome.BROKEN, _first_line(errors[0]), seconds)
    if not own:
        reasons = [
            line[1:].strip() for line in said.splitlines() if line.startswith("E  ")
        ] or said.strip().splitlines()
        return Result(
            Outcome.BROKEN, f"not collected: {reasons[-1] if reasons else 'no output'}", seconds
        )
    return Result(Outcome.SKIPPED if len(skips) == len(own) else Outcome.PASSED, "", seconds)


def _first_line(mark):
    return (mark.get("message") or "").strip().partition("\n")[0]
