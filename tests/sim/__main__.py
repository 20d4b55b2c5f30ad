"""``python -m tests.sim --seconds 60`` plays seeds for a minute on each core. ``python -m tests.sim
--seed 17 --kind runs`` plays one, and shows its course."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.sim import lanes, ships
from tests.sim.world import World

#: Kind of history → how it is played.
KINDS: dict[str, Callable[[World], None]] = {
    "lanes": lanes.play,
    "runs": ships.play,
    "growth": partial(ships.play, habits=ships.Habits(grows=True)),
    "clusters": partial(ships.play, habits=ships.Habits(clusters=2, grows=True)),
}
#: Seeds that once failed, one a line: kind and number. They are played first.
KEPT = Path(__file__).with_name("seeds.txt")
#: Share of the time that goes to each kind.
_SHARES = {"lanes": 0.5, "runs": 0.2, "growth": 0.15, "clusters": 0.15}


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a seed's course
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed alone")
    parser.add_argument("--kind", choices=KINDS, default="lanes")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed of each kind")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    logging.getLogger("shipper").setLevel(logging.CRITICAL)
    if asked.seed is not None:
        return _show(asked.kind, asked.seed)
    kept = [line.split() for line in KEPT.read_text().splitlines() if line[:1] not in ("", "#")]
    failed = [_told(kind, int(seed)) for kind, seed, *_ in kept]
    began = time.monotonic()
    work = [
        (number, asked.processes, asked.first, asked.seconds) for number in range(asked.processes)
    ]
    with multiprocessing.Pool(asked.processes) as pool:
        played = pool.starmap(_play_for, work)
    failed += [why for _, wrong in played for why in wrong]
    counts = ", ".join(f"{sum(count[kind] for count, _ in played):,} of {kind}" for kind in KINDS)
    print(f"{counts} in {time.monotonic() - began:.0f} s")
    wrong = [why for why in failed if why]
    print("\n".join(wrong) or "no seed broke a promise")
    return 1 if wrong else 0


def _play_for(number: int, of: int, first: int, seconds: float) -> tuple[dict[str, int], list[str]]:
    """Play every ``of``-th seed of each kind for its share of the time."""
    counts, wrong = dict.fromkeys(KINDS, 0), []
    for kind in KINDS:
        ends, seed = time.monotonic() + seconds * _SHARES[kind], first + number
        while time.monotonic() < ends:
            if why := _told(kind, seed):
                wrong.append(why)
            counts[kind] += 1
            seed += of
    return counts, wrong


def _told(kind: str, seed: int) -> str:
    """Play a seed; return what it broke, with the command that repeats it, or nothing."""
    try:
        KINDS[kind](World(seed))
    except Exception as error:
        return (
            f"{kind} {seed}: {type(error).__name__}: {str(error)[:500]}\n"
            f"    python -m tests.sim --kind {kind} --seed {seed}"
        )
    return ""


def _show(kind: str, seed: int) -> int:
    world, failed = World(seed, keeps_log=True), False
    try:
        KINDS[kind](world)
    except Exception:
        failed = True
        traceback.print_exc(file=sys.stdout)
    print("\n".join(world.log or ()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
