"""``python -m tests.sim.power [--seconds 60] [NAME …]``: remove each rule in turn, and play seeds
until one breaks a promise. The table says which seed found it, or how many did not."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.design import ROOT
from tests.mutants.table import MUTANTS
from tests.mutants.trial import Mutant, TreeCopy
from tests.sim.__main__ import KINDS
from tests.sim.world import World

_LEDGER, _NO_TEST = "The ledger's history", ""
#: Rules of ``model/`` and faults of the past that no test among the mutants removes.
RULES = (
    Mutant(
        "fences-own-lanes-only",  # FENCE_OWN_LANES_ONLY
        _LEDGER,
        "shipper/ledger/control.py",
        "            if generation is None or offset < generation:\n",
        "            if offset == max(self.generations) and generation is None:\n",
        _NO_TEST,
    ),
    Mutant(
        "generation-not-asked-by-tasks",  # NO_RIGHT
        _LEDGER,
        "shipper/worker/task.py",
        "        if control.generation != order.generation:\n",
        "        if False:\n",
        _NO_TEST,
    ),
    Mutant(
        "later-attempt-not-heard",  # NO_ATTEMPT_RIGHT
        _LEDGER,
        "shipper/worker/task.py",
        "        if attempts[-1:] != [self._key.number]:\n",
        "        if False:\n",
        _NO_TEST,
    ),
    Mutant(
        "later-attempts-read-nothing",  # LATER_READS_NOTHING
        _LEDGER,
        "shipper/worker/task.py",
        "        if len(attempts.answer) == 1:\n",
        "        if True:\n",
        _NO_TEST,
    ),
    Mutant(
        "forgotten-before-fenced",  # REMOVED_TOO_EARLY
        _LEDGER,
        "shipper/ledger/takeover.py",
        "        meanwhile(before.to_fence())\n",
        "        _forget(ledger, Announced(generation, {}, before.earlier(generation, roots)))\n"
        "        meanwhile({})\n",
        _NO_TEST,
    ),
    Mutant(
        "chunk-of-a-twice-written-record-counted-twice",
        _LEDGER,
        "shipper/worker/shipment.py",
        "self._predecessors[chunk.key] = chunk",
        "self._predecessors[chunk.key, chunk.offset] = chunk",
        _NO_TEST,
    ),
    Mutant(
        "append-believes-an-unknown-offset",  # S9
        _LEDGER,
        "shipper/kafka/client.py",
        "                raise self._not_written(\n",
        "                return [0] * len(list(offsets) + left) if left else offsets\n"
        "                raise self._not_written(\n",
        _NO_TEST,
    ),
)
#: Where the simulated world runs the code.
_SIMULATED = (
    "shipper/driver/",
    "shipper/kafka/",
    "shipper/ledger/",
    "shipper/report/",
    "shipper/worker/",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.power", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these rules")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each rule")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.play:
        return _play(asked.seconds)
    chosen = [
        rule
        for rule in (*MUTANTS, *RULES)
        if rule.file.startswith(_SIMULATED) and (not asked.names or rule.name in asked.names)
    ]
    found = 0
    with tempfile.TemporaryDirectory(prefix="power-") as folder:
        copy = TreeCopy.of_checkout(ROOT, Path(folder))
        for rule in chosen:
            with copy.mutated(rule):
                found += (code := _try(copy, asked.seconds, rule)) == 1
            if code not in (0, 1):
                return code
    print(f"{found} of {len(chosen)} removed rules found")
    return 0


def _try(copy: TreeCopy, seconds: float, rule: Mutant) -> int:
    """Play seeds in the mutated copy; print what they found. Return 1 if one failed."""
    path = os.pathsep.join([str(copy.folder), str(copy.folder / "tools")])
    environment = os.environ | {
        "PYTHONPATH": path,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "tests.sim.power", "--play", "--seconds", str(seconds)]
    done = subprocess.run(
        command, cwd=copy.folder, env=environment, capture_output=True, text=True, check=False
    )
    said = done.stdout.strip().splitlines()[-1:] or [done.stderr[-300:] or str(done.returncode)]
    print(f"{rule.name} · {said[0][:220]}", flush=True)
    return done.returncode


def _play(seconds: float) -> int:
    """Play seeds of all kinds in turn until one fails, or the time is over. The shortest histories
    come most often."""
    logging.getLogger("shipper").setLevel(logging.CRITICAL)
    began = time.monotonic()
    turns, seeds = (*["lanes"] * 20, *KINDS), dict.fromkeys(KINDS, 0)
    for played, kind in enumerate(itertools.cycle(turns)):
        number = seeds[kind]
        seeds[kind] += 1
        if time.monotonic() > began + seconds:
            print(f"SURVIVED {played} seeds")
            return 0
        try:
            KINDS[kind](World(number))
        except Exception as error:
            text = " ".join(str(error).split())[:140]
            print(f"{kind} {number} after {played + 1} seeds: {type(error).__name__}: {text}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
