"""What ``shipper doctor`` finds: checks that each take a few seconds at most, side by side, and never raise.

A :class:`Check` says what it looked at in lines; one that fails ends its chain, since what comes behind it could only fail too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Literal

from shipper.errors import ShipperError, why_system

log = logging.getLogger("shipper.doctor")

Status = Literal["ok", "warning", "failed", "skipped"]
#: A check that has not answered by then is a finding of its own.
LIMIT_SECONDS = 10.0


@dataclass(frozen=True)
class Finding:
    """One line."""

    check: str
    """What was looked at."""
    status: Status
    """`warning`: it works, and should be mended; `skipped`: nobody could look, and ``says`` is why."""
    says: str
    remedy: str = ""
    """What to do. Set when the status is `warning` or `failed`."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


def ok(check: str, says: str) -> Finding:
    return Finding(check, "ok", says)


def warning(check: str, says: str, remedy: str) -> Finding:
    return Finding(check, "warning", says, remedy)


def failed(check: str, says: str, remedy: str) -> Finding:
    return Finding(check, "failed", says, remedy)


def skipped(check: str, why: str) -> Finding:
    return Finding(check, "skipped", why)


@dataclass(frozen=True)
class Check:
    name: str
    examine: Callable[[], Iterable[Finding]]
    remedy: str = "run it again with -v, which shows what it waits for"
    """If it does not answer, or raises what nobody foresaw."""


#: One after the other; those in a tuple side by side. After one that failed the rest is skipped.
Chain = Sequence[Check | tuple[Check, ...]]


def examine(chains: Sequence[Chain], limit_seconds: float = LIMIT_SECONDS) -> list[Finding]:
    """All chains side by side; findings in the order of the chains. Never raises."""
    with ThreadPoolExecutor(max(1, len(chains)), thread_name_prefix="doctor") as together:
        return [finding for found in together.map(lambda chain: _of_chain(chain, limit_seconds), chains) for finding in found]


def _of_chain(chain: Chain, limit_seconds: float) -> list[Finding]:
    found: list[Finding] = []
    for link in chain:
        checks = link if isinstance(link, tuple) else (link,)
        bad = next((finding for finding in found if finding.status == "failed"), None)
        if bad is not None:
            found += [skipped(check.name, f"not looked at, since {bad.check} failed") for check in checks]
            continue
        ends = time.monotonic() + limit_seconds
        begun = [_Begun(check) for check in checks]
        found += [finding for each in begun for finding in each.wait(ends, limit_seconds)]
    return found


class _Begun:
    """A check in a thread of its own, which is left behind if it does not end: a name server or a file system may never answer."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._found: list[Finding] = []
        self._thread = threading.Thread(target=self._run, name=check.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        name, remedy = self._check.name, self._check.remedy
        try:
            for finding in self._check.examine():
                self._found.append(finding)
        except ShipperError as error:
            self._found.append(failed(name, error.message, remedy))
        except OSError as error:
            self._found.append(failed(name, why_system(error), remedy))
        except Exception as error:
            # Whatever its text says may quote a secret.
            log.info("%s", name, exc_info=True)
            self._found.append(failed(name, f"it could not be looked at: {type(error).__name__}", remedy))

    def wait(self, ends: float, limit_seconds: float) -> list[Finding]:
        self._thread.join(max(0.0, ends - time.monotonic()))
        found = list(self._found)
        if self._thread.is_alive():
            found.append(failed(self._check.name, f"no answer within {limit_seconds:g} s", self._check.remedy))
        return found
