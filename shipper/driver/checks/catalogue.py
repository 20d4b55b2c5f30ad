"""Checks, and the runner of ``shipper doctor``'s: each takes a few seconds at most, all run in
parallel, and none raises. The check functions stand beside this module. ``machine`` and ``remote``
are the doctor's, ``refusals`` those of plan and ship, ``configuration`` those of ``validate``.

A :class:`Check` is a name, a question and a remedy. Its question yields a finding for each thing
that it looked at. A check behind one that failed is skipped, since it could only fail too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from shipper import runtime
from shipper.config.pipeline import Pipeline
from shipper.errors import ShipperError, why_system
from shipper.finding import Finding, fail, of_error, ok

log = logging.getLogger("shipper.doctor")

#: A check that has not answered by then is a finding of its own.
LIMIT_SECONDS = 10.0


SKIPPED = "skipped"
"""Code of what could not be examined; the text gives the reason."""
skipped = partial(ok, code=SKIPPED)
_Answer: TypeAlias = "runtime.Future[tuple[list[Finding], str]]"


@dataclass
class CheckTarget:
    """Target of checks: this machine; or a cluster, see
    :class:`shipper.driver.checks.remote.ClusterTarget`."""

    config_dir: Path
    pipeline: Pipeline | None
    """Pipeline to examine; None: no pipeline was named. Checks that need one are left out."""
    limit_seconds: float = LIMIT_SECONDS
    """Time that a question may take. A check may take a little longer, so that a question that is
    not answered can say so itself."""
    cluster_name: str = ""
    """Cluster; empty: this machine."""
    checks: Sequence[Check] = ()

    @property
    def of(self) -> Pipeline:
        """The pipeline, for a check that needs one."""
        assert self.pipeline is not None
        return self.pipeline


@dataclass(frozen=True)
class Check:
    name: str
    question: Callable[[Any], Iterator[Finding]]
    """Called with the target."""
    remedy: str
    """Remedy if the check fails, unless a finding says it more exactly."""
    needs_pipeline: bool = False
    after: str = ""
    """Name of the check that must pass first, because this one would only fail without it; empty:
    none."""


def examine(targets: Iterable[CheckTarget], limit_seconds: float = LIMIT_SECONDS) -> list[Finding]:
    """Return the findings in the order of the checks. Never raises."""
    wanted = [
        (target, [each for each in target.checks if target.pipeline or not each.needs_pipeline])
        for target in targets
    ]
    answers: list[_Answer] = []
    # A check waits in its thread for the one before it.
    with runtime.ThreadPoolExecutor(
        max(1, sum(len(checks) for _, checks in wanted)), thread_name_prefix="doctor"
    ) as together:
        for target, checks in wanted:
            begun: dict[str, _Answer] = {}
            for check in checks:
                begun[check.name] = together.submit(
                    _answer, target, check, begun.get(check.after), limit_seconds
                )
            answers += begun.values()
    return [finding for answer in answers for finding in answer.result()[0]]


def _answer(
    target: CheckTarget, check: Check, before: _Answer | None, limit_seconds: float
) -> tuple[list[Finding], str]:
    """Return the findings, and the name of what failed, here or before; empty: nothing."""

    def full(finding: Finding) -> Finding:
        remedy = finding.remedy or ("" if finding.severity == "ok" else check.remedy)
        subject = finding.subject or check.name
        return replace(finding, cluster=target.cluster_name, subject=subject, remedy=remedy)

    if before is not None and (bad := before.result()[1]):
        return [full(skipped(f"not checked, because {bad} failed"))], bad
    findings = [full(finding) for finding in _ask(check, target, limit_seconds)]
    bad = next((finding.subject for finding in findings if finding.severity == "fail"), "")
    return findings, bad


def _ask(check: Check, target: CheckTarget, limit_seconds: float) -> list[Finding]:
    """Ask in a thread of its own, which is left behind if it does not end: a name server or a file
    system may never answer."""
    found: list[Finding] = []

    def run() -> None:
        try:
            for finding in check.question(target):
                found.append(finding)
        except ShipperError as error:
            found.append(of_error(error))
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
