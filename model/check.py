#!/usr/bin/env python3
"""Check the protocol with SPIN: every configuration holds, and every rule that is taken out is
caught.

``check.py`` runs all checks, ``check.py --short`` those of CI, ``check.py NAME …`` those whose name
contains a NAME. One line for each check; the exit code is 1 if any differs from what is expected,
and 2 if ``spin`` or a C compiler is missing. Needs Python alone otherwise. With ``--trail`` a check
that finds an error prints the steps that lead to it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
MEMORY_MB = 4_500
DEPTH = 1_000_000

DOUBLED = "visible["  # a chunk is committed twice
LOST = "known["  # a run is green, and a chunk is in no topic or in no ledger
COUNTED_TWICE = "sum_"  # ledger.pml: a chunk counts twice since its file was invalidated
HIDDEN = "v_>0"  # ledger.pml: a run is green and the latest, and the ledger lacks a chunk


class Check(NamedTuple):
    """A configuration, and the assertion that it must violate; none if it must hold."""

    name: str
    model: str
    flags: str
    violates: str = ""
    short: bool = True


_ONE = "RUNS=2 LANES=1 CHUNKS=2 FAULTS=2"
_WIDE = "RUNS=3 CHUNKS=1 FAULTS=0 COMPACTION ONE_LANE"
_ATTEMPTS = "RUNS=1 CHUNKS=2"
_TWO_RUNS = "RUNS=2 ENDED=1 FAULTS=0"
_SCANS = "TASKS=2 SECOND_SCAN ENDED=0 FAULTS=0"
_LATE = "KINDS=212 RUNS=3 CHUNKS=1 INVALIDATION_CHECKED_THEN_WRITTEN HIDING_IS_ALLOWED"
_MOVED = "KINDS=132 RUNS=3 OLD=1 CHUNKS=1 SNAPSHOT"

CHECKS = [
    # Two runs, one id.
    Check("takeover", "takeover", _ONE),
    Check("no right to ship", "takeover", f"{_ONE} NO_RIGHT", DOUBLED),
    Check("no new epoch after a lost connection", "takeover", f"{_ONE} NO_EPOCH", DOUBLED),
    Check("the right is read without a barrier", "takeover", f"{_ONE} NO_BARRIER_RIGHT", DOUBLED),
    Check("chunks are read without a barrier", "takeover", f"{_ONE} NO_BARRIER_CHUNKS", DOUBLED),
    Check(
        "the ledger is read before the fencing", "takeover", f"{_ONE} READ_BEFORE_FENCE", DOUBLED
    ),
    Check(
        "lanes are fenced before the announcement",
        "takeover",
        f"{_ONE} FENCE_BEFORE_ANNOUNCING",
        DOUBLED,
    ),
    # The ledger's record last: no rule of its own while the epoch's holds.
    Check("ledger first, alone", "takeover", f"{_ONE} LEDGER_FIRST"),
    Check("no new epoch: doubled, not lost", "takeover", f"{_ONE} NO_EPOCH LOSS_ONLY"),
    Check(
        "no new epoch, and ledger first: lost",
        "takeover",
        f"{_ONE} NO_EPOCH LEDGER_FIRST LOSS_ONLY",
        LOST,
    ),
    # At least once.
    Check("a run at least once, then one exactly once", "takeover", f"{_ONE} LOOSE=1"),
    Check("a run exactly once, then one at least once", "takeover", f"{_ONE} LOOSE=2"),
    Check("at least once, ledger first", "takeover", f"{_ONE} LOOSE=1 LEDGER_FIRST", LOST),
    # Lanes side by side.
    Check("two lanes of one run", "takeover", "RUNS=1 LANES=2 CHUNKS=2 FAULTS=2"),
    Check(
        "reading to the first open transaction",
        "takeover",
        "RUNS=1 LANES=2 CHUNKS=2 FAULTS=2 READ_TO_FIRST_OPEN",
        DOUBLED,
    ),
    Check("two runs of two lanes", "takeover", "RUNS=2 LANES=2 CHUNKS=1 FAULTS=1", short=False),
    Check(
        "two runs, two lanes, two chunks, two faults",
        "takeover",
        "RUNS=2 LANES=2 CHUNKS=2 FAULTS=2",
        short=False,
    ),
    Check("three runs", "takeover", "RUNS=3 LANES=1 CHUNKS=2 FAULTS=2", short=False),
    # Runs with more lanes and with fewer, and compaction.
    *(
        Check(
            f"fewer lanes than before ({wide:03b})", "takeover", f"{_WIDE} WIDE={wide}", short=False
        )
        for wide in (1, 2, 3, 4, 5, 6)
    ),
    Check(
        "only the own lanes are fenced", "takeover", f"{_WIDE} WIDE=1 FENCE_OWN_LANES_ONLY", DOUBLED
    ),
    Check(
        "a generation is removed before its lanes are fenced",
        "takeover",
        f"{_WIDE} WIDE=1 REMOVED_TOO_EARLY",
        DOUBLED,
    ),
    Check(
        "one key for all generations, compaction late",
        "takeover",
        f"{_WIDE} WIDE=1 ONE_KEY",
        short=False,
    ),
    Check(
        "one key for all generations",
        "takeover",
        f"{_WIDE} WIDE=1 ONE_KEY COMPACTION_AT_ONCE",
        DOUBLED,
    ),
    Check(
        "one key, not announced again",
        "takeover",
        f"{_WIDE} WIDE=2 ONE_KEY NO_ANNOUNCE_AGAIN",
        DOUBLED,
        short=False,
    ),
    Check(
        "one key, the marker before the fencing",
        "takeover",
        f"{_WIDE} WIDE=1 ONE_KEY MARKER_TOO_EARLY",
        DOUBLED,
        short=False,
    ),
    # Attempts of tasks.
    Check("attempts of a task", "attempts", _ATTEMPTS),
    Check("attempts of a task of two lanes", "attempts", f"{_ATTEMPTS} LANES=2"),
    Check("an attempt ignores later ones", "attempts", f"{_ATTEMPTS} NO_ATTEMPT_RIGHT", DOUBLED),
    Check("a later attempt reads nothing", "attempts", f"{_ATTEMPTS} LATER_READS_NOTHING", DOUBLED),
    Check(
        "an attempt reads before it opens its lanes",
        "attempts",
        f"{_ATTEMPTS} READ_BEFORE_OPENING",
        DOUBLED,
    ),
    Check(
        "a later attempt announces itself after it opened its lanes",
        "attempts",
        f"{_ATTEMPTS} ANNOUNCE_AFTER_OPENING",
        DOUBLED,
    ),
    Check(
        "the attempt that was announced last has the right",
        "attempts",
        f"{_ATTEMPTS} ORDER_OF_THE_LOG",
        DOUBLED,
    ),
    Check("an announcement that comes late", "attempts", f"{_ATTEMPTS} ANNOUNCED_TWICE"),
    Check("three attempts", "attempts", "RUNS=1 CHUNKS=2 ATTEMPTS=3 FAULTS=0", short=False),
    Check("attempts of two runs", "attempts", _TWO_RUNS),
    Check(
        "an attempt's key without the generation",
        "attempts",
        f"{_TWO_RUNS} ATTEMPT_KEY_WITHOUT_GENERATION",
        DOUBLED,
    ),
    Check("a second scan", "attempts", _SCANS),
    Check(
        "a second scan without a generation of its own",
        "attempts",
        f"{_SCANS} SCAN_WITHOUT_GENERATION",
        DOUBLED,
    ),
    # What records say.
    Check("a reship and a ship", "ledger", "KINDS=12 OLD=1"),
    Check("two reships and a ship", "ledger", "KINDS=212 RUNS=3 CHUNKS=1"),
    Check(
        "two reships and a ship of two chunks", "ledger", "KINDS=212 RUNS=3 CHUNKS=2", short=False
    ),
    Check(
        "an invalidation without the right",
        "ledger",
        "KINDS=12 OLD=1 INVALIDATION_WITHOUT_RIGHT",
        HIDDEN,
    ),
    Check(
        "an invalidation outside of a transaction",
        "ledger",
        "KINDS=12 OLD=1 INVALIDATION_CHECKED_THEN_WRITTEN",
        HIDDEN,
    ),
    Check("… doubles and loses nothing", "ledger", _LATE),
    Check(
        "… unless the latest counts, not the highest",
        "ledger",
        f"{_LATE} LATEST_INVALIDATION_COUNTS",
        COUNTED_TWICE,
    ),
    Check("archive, reship and ship", "ledger", "KINDS=123 RUNS=3 OLD=1 CHUNKS=1"),
    Check(
        "an archive announces and fences nothing",
        "ledger",
        "KINDS=123 RUNS=3 OLD=1 CHUNKS=1 ARCHIVE_WITHOUT_FENCE",
        HIDDEN,
    ),
    Check(
        "an archive's marker after its tombstones",
        "ledger",
        "KINDS=13 OLD=1 MARKER_AFTER_TOMBSTONES",
        COUNTED_TWICE,
    ),
    Check(
        "an archive asks for the right without a barrier",
        "ledger",
        "KINDS=23 OLD=1 ARCHIVE_NO_BARRIER",
        HIDDEN,
    ),
    Check("a snapshot", "ledger", "KINDS=11 SNAPSHOT"),
    Check(
        "a snapshot past an open transaction",
        "ledger",
        "KINDS=11 SNAPSHOT SNAPSHOT_PAST_OPEN_TRANSACTION",
        HIDDEN,
    ),
    Check("archive, snapshot, lost tombstones", "ledger", _MOVED),
    Check(
        "a snapshot's record hides the archive's later one",
        "ledger",
        f"{_MOVED} TOPIC_HIDES_ARCHIVE",
        HIDDEN,
    ),
    # A file that was renamed.
    Check("a renamed file", "renamed", ""),
    Check("a renamed file, two runs that recognise it", "renamed", "RUNS=3"),
    Check("a renamed file and a copy of it", "renamed", "COPIES RUNS=3", short=False),
    Check("another file that begins with a short one", "renamed", "SHORT RUNS=3"),
    Check("what the plan saw of the ledger decides", "renamed", "DECIDED_BY_THE_PLAN", DOUBLED),
    Check("an attempt of the same run is passed over", "renamed", "OWN_RUN_IS_BELIEVED", DOUBLED),
    Check("a file that was shipped in part is no original", "renamed", "PART_IS_NEW", DOUBLED),
    Check("an original has two heirs", "renamed", "COPIES TWO_HEIRS", DOUBLED),
    Check(
        "a header proves that a longer file is the same", "renamed", "SHORT HEADER_PROVES", DOUBLED
    ),
    Check("two archives and a ship", "ledger", "KINDS=133 RUNS=3 SNAPSHOT", short=False),
]


class Outcome(NamedTuple):
    """What one search found."""

    states: int
    violated: str
    """The assertion; empty if all hold."""
    problem: str
    """Why the search is not complete; empty if it is."""


def check(each: Check, folder: Path, compiler: str, *, trail: bool) -> Outcome:
    flags = [f"-D{flag}" for flag in each.flags.split()]
    model = HERE / f"{each.model}.pml"
    made = subprocess.run(
        ["spin", "-a", *flags, str(model)], cwd=folder, capture_output=True, text=True
    )
    if made.returncode or not (folder / "pan.c").exists():
        return Outcome(0, "", f"spin: {(made.stdout + made.stderr).strip()[-200:]}")
    speed = "-O0" if each.short else "-O2"  # most of a short check is the compiler
    command = [
        compiler,
        speed,
        "-w",
        "-DSAFETY",
        "-DCOLLAPSE",
        f"-DMEMLIM={MEMORY_MB}",
        "-DVECTORSZ=2048",
        "-o",
        "pan",
        "pan.c",
    ]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if built.returncode:
        return Outcome(0, "", f"{compiler}: {built.stderr.strip()[-200:]}")
    # -n: no list of unreached code; -E: no complaint of processes that wait, which is how any of
    # them may stop.
    said = subprocess.run(
        ["nice", "./pan", f"-m{DEPTH}", "-n", "-E"], cwd=folder, capture_output=True, text=True
    ).stdout
    states = re.search(r"([\d.e+]+) states, stored", said)
    violated = re.search(r"assertion violated \((.*?)\) \(at depth", said) or re.search(
        r"assertion violated (.*)", said
    )
    errors = re.search(r"errors: (\d+)", said)
    problem = ""
    if errors is None or ("Search not completed" in said and not violated):
        problem = "the search is not complete"
    elif "max search depth too small" in said:
        problem = "the search was not deep enough"
    elif errors[1] != "0" and not violated:
        problem = said.strip().splitlines()[0]
    if trail and violated:
        shown = subprocess.run(
            ["spin", "-t", "-p", "-g", "-l", "-k", f"{model.name}.trail", *flags, str(model)],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        print(shown.stdout)
    return Outcome(int(float(states[1])) if states else 0, violated[1] if violated else "", problem)


def main() -> int:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument(
        "names", nargs="*", metavar="NAME", help="run the checks whose name contains it"
    )
    asked.add_argument("--short", action="store_true", help="leave out the large configurations")
    asked.add_argument("--trail", action="store_true", help="print the steps that lead to an error")
    options = asked.parse_args()
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if not shutil.which("spin") or compiler is None:
        print(
            "The model cannot be checked: it needs spin and a C compiler. Debian: `apt-get "
            "install spin gcc libc6-dev`.",
            file=sys.stderr,
        )
        return 2
    chosen = [
        each
        for each in CHECKS
        if (each.short or not options.short)
        and (not options.names or any(name in each.name for name in options.names))
    ]
    if not chosen:
        print("No check has such a name.", file=sys.stderr)
        return 2
    wrong, began = [], time.monotonic()
    for each in chosen:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="model-") as folder:
            found = check(each, Path(folder), compiler, trail=options.trail)
        good = not found.problem and (
            each.violates in found.violated if each.violates else not found.violated
        )
        good = good and bool(found.violated) == bool(each.violates)
        errors = f"errors {int(bool(found.violated))} (expected {int(bool(each.violates))})"
        seconds = time.monotonic() - started
        print(
            f"{'ok   ' if good else 'WRONG'} {each.name:<58} {errors:<23} {found.states:>10,} "
            f"states {seconds:6.1f} s  {each.model}.pml {each.flags}",
            flush=True,
        )
        if not good:
            wrong.append(each.name)
            print(
                "      "
                f"{found.problem or f'violated: {found.violated or None}; expected: {each.violates or None}'}",  # noqa: E501
                flush=True,
            )
    print(
        f"{len(chosen) - len(wrong)} of {len(chosen)} checks as expected, "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
