"""A finding: the one form in which shipper says that something is well, or wrong, and where.

Doctor, plan, ship, report, page, notices and ``--json`` show its fields. Its sentences are written
once, where the fact is known, and no code reads them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

if TYPE_CHECKING:
    from shipper.errors import ShipperError

Severity = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Finding:
    severity: Severity
    """`ok`: nothing has to be done; `warn`: it works, and a person should look; `fail`: it does not
    work, or is wrong."""
    text: str
    """Sentences that say what was found, without the cluster."""
    remedy: str = ""
    """Next thing to do; empty if there is none, or ``text`` says it."""
    code: str = ""
    """Kind, for programs: an error's `SHIP-303`, or a word such as `quarantined`."""
    cluster: str = ""
    """Cluster that it is about; empty: all, or none."""
    subject: str = ""
    """Object that it is about, such as a topic, a file, a check or a step."""
    passing: bool = False
    """True if a fault may be over when it is tried again, unchanged."""

    @property
    def full(self) -> str:
        """Text and remedy in sentences."""
        return " ".join(sentence(part) for part in (self.text, self.remedy) if part)

    def __str__(self) -> str:
        return f"{self.cluster}: {self.text}" if self.cluster else self.text


def sentence(text: str) -> str:
    """Return ``text`` with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', ']', '…', '?')) else '.'}"


ok, warn, fail = partial(Finding, "ok"), partial(Finding, "warn"), partial(Finding, "fail")


def of_error(error: ShipperError, cluster: str = "") -> Finding:
    return fail(error.message, code=error.code, cluster=cluster, passing=error.retriable)
