"""``python -m tests.mutants [--short] [NAME …]``: remove each rule in turn, and show that its test
fails."""

import argparse
import queue
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.design import ROOT
from tests.mutants.table import MUTANTS
from tests.mutants.trial import MutantDrifted, Outcome, TreeCopy

_SIDE_BY_SIDE = 3


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every chosen mutant is caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    parser.add_argument(
        "--short", action="store_true", help="only mutants whose test starts no server"
    )
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - {mutant.name for mutant in MUTANTS}:
        parser.error(
            f"no mutant {', '.join(sorted(unknown))}; there are "
            f"{', '.join(mutant.name for mutant in MUTANTS)}"
        )
    chosen = [
        m
        for m in MUTANTS
        if (not asked.names or m.name in asked.names) and (m.is_short or not asked.short)
    ]
    began = time.monotonic()
    try:
        for mutant in chosen:
            mutant.applied_to((ROOT / mutant.file).read_text())
    except MutantDrifted as drifted:
        print(drifted, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        survived = _try_all(chosen, Path(folder))
    print(
        f"{len(chosen) - survived} of {len(chosen)} mutants caught in "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if survived else 0


def _try_all(mutants, folder):
    """Return how many mutants were not caught. Short ones run side by side, the others one after
    the other."""
    first = TreeCopy.of_checkout(ROOT, folder / "0")
    tests = sorted({mutant.test for mutant in mutants})
    without_mutant = {}
    for short in (True, False):
        if group := [
            test
            for test in tests
            if any(mutant.test == test and mutant.is_short is short for mutant in mutants)
        ]:
            without_mutant |= first.run(group, is_first=True)
    copies = queue.Queue()
    for copy in (first, *(first.again(folder / str(number)) for number in range(1, _SIDE_BY_SIDE))):
        copies.put(copy)

    def attempt(mutant):
        before = without_mutant[mutant.test]
        if before.outcome is not Outcome.PASSED:
            return _told(
                mutant, before, f"NOT SHOWN: without the mutant the test has {before.outcome.value}"
            )
        copy = copies.get()
        try:
            with copy.mutated(mutant):
                after = copy.run([mutant.test])[mutant.test]
        finally:
            copies.put(copy)
        said = {Outcome.FAILED: "caught", Outcome.PASSED: "SURVIVED"}.get(
            after.outcome, f"NOT SHOWN: {after.outcome.value}"
        )
        return _told(mutant, after, said)

    caught = []
    for short, side_by_side in ((True, _SIDE_BY_SIDE), (False, 1)):
        with ThreadPoolExecutor(side_by_side) as pool:
            caught += pool.map(attempt, [mutant for mutant in mutants if mutant.is_short is short])
    return caught.count(False)


def _told(mutant, result, said):
    reason = f" ({result.reason[:100]})" if result.reason else ""
    print(
        f"{mutant.invariant} · {mutant.name} · {mutant.test} · {result.seconds:.1f} s · "
        f"{said}{reason}",
        flush=True,
    )
    return said == "caught"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
