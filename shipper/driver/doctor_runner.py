"""Runner of ``shipper doctor``'s checks: each takes a few seconds at most, all run in parallel, and
none raises.

A :class:`Check` is a name, a question and a remedy. Its question yields a finding for each thing
that it looked at. A check behind one that failed is skipped, since it could only fail too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from shipper import runtime
from shipper.config.pipeline import Pipeline
from shipper.errors import ShipperError, why_system
from shipper.finding import Finding, fail, ok

log = logging.getLogger("shipper.doctor")

#: A check that has not answered by then is a finding of its own.
LIMIT_SECONDS = 10.0


SKIPPED = "skipped"
"""Code of what could not be examined; the text gives the reason."""
skipped = partial(ok, code=SKIPPED)


@dataclass
class Examined:
    """Subject of the examination: this machine; or a cluster, see
    :class:`shipper.driver.doctor_cluster.ExaminedCluster`."""

    config_dir: Path
    pipeline: Pipeline | None
    """Pipeline to examine; None: no pipeline was named. Checks that need one are left out."""
    limit_seconds: float = LIMIT_SECONDS
    """Time that a question may take. A check may take a little longer, so that a question that is
    not answered can say so itself."""

    @property
    def of(self) -> Pipeline:
        """The pipeline, for a check that needs one."""
        assert self.pipeline is not None
        return self.pipeline


E = TypeVar("E", bound=Examined)


@dataclass(frozen=True)
class Check(Generic[E]):
    name: str
    question: Callable[[E], Iterator[Finding]]
    remedy: str
    """Remedy if the check fails, unless a finding says it more exactly."""
    needs_pipeline: bool = False
    after: str = ""
    """Name of the check that must pass first, because this one would only fail without it; empty:
    none."""


@dataclass(frozen=True)
class CheckList(Generic[E]):
    """Checks of one machine or cluster."""

    checks: Sequence[Check[E]]
    about: E
    cluster: str = ""
    """The cluster; empty: this machine."""


class _Answer(NamedTuple):
    findings: list[Finding]
    failed: str
    """Name of what failed, here or before; empty: nothing."""


def examine(asked: Sequence[CheckList[Any]], limit_seconds: float = LIMIT_SECONDS) -> list[Finding]:
    """Return the findings in the order of the checks. Never raises."""
    wanted = [
        (each, [check for check in each.checks if each.about.pipeline or not check.needs_pipeline])
        for each in asked
    ]
    answers: list[runtime.Future[_Answer]] = []
    # A check waits in its thread for the one before it.
    with runtime.ThreadPoolExecutor(
        max(1, sum(len(checks) for _, checks in wanted)), thread_name_prefix="doctor"
    ) as together:
        for each, checks in wanted:
            begun: dict[str, runtime.Future[_Answer]] = {}
            for check in checks:
                begun[check.name] = together.submit(
                    _answer, each, check, begun.get(check.after), limit_seconds
                )
            answers += begun.values()
    return [finding for answer in answers for finding in answer.result().findings]


def _answer(
    asked: CheckList[E],
    check: Check[E],
    before: runtime.Future[_Answer] | None,
    limit_seconds: float,
) -> _Answer:
    def full(finding: Finding) -> Finding:
        remedy = finding.remedy or ("" if finding.severity == "ok" else check.remedy)
        subject = finding.subject or check.name
        return replace(finding, cluster=asked.cluster, subject=subject, remedy=remedy)

    if before is not None and (bad := before.result().failed):
        return _Answer([full(skipped(f"not checked, because {bad} failed"))], bad)
    findings = [full(finding) for finding in _ask(check, asked.about, limit_seconds)]
    bad = next((finding.subject for finding in findings if finding.severity == "fail"), "")
    return _Answer(findings, bad)


def _ask(check: Check[E], about: E, limit_seconds: float) -> list[Finding]:
    """Ask in a thread of its own, which is left behind if it does not end: a name server or a file
    system may never answer."""
    found: list[Finding] = []

    def run() -> None:
        try:
            for finding in check.question(about):
                found.append(finding)
        except ShipperError as error:
            found.append(fail(error.message))
        except OSError as error:
            found.append(fail(why_system(error)))
        except Exception as error:
            # The error's text may quote a secret.
            log.info("%s", check.name, exc_info=True)
            found.append(fail(f"the check itself failed: {type(error).__name__}"))

    thread = runtime.Thread(target=run, name=check.name, daemon=True)
    thread.start()
    thread.join(limit_seconds)
    answered = list(found)
    return (
        [*answered, fail(f"no answer within {limit_seconds:g} s")]
        if thread.is_alive()
        else answered
    )
