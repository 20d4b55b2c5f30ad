"""``python -m tests.sim --seconds 60`` plays seeds for a minute of each core's time, however busy
the machine is. ``python -m tests.sim --seed 17 --kind runs`` plays one, and shows its course."""

import argparse
import gc
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.sim import lanes, schedule, ships
from tests.sim.world import FAULTS, World

_RENAMES = ships.Habits(rotates=True, repeats=False)


def _habits(habits):
    return partial(ships.play, habits=habits)


#: What else happens in histories of a pipeline that changes, by the seed.
_CHANGED = (
    ships.Habits(strikes=True),
    ships.Habits(grows=True, clusters=2),
    replace(_RENAMES, zombies=True),
    ships.Habits(reships=True, strikes=True),
    ships.Habits(ordered=True, grows=True),
    replace(_RENAMES, copies=True, packs=True),
    ships.Habits(objects=True),
    ships.Habits(away=True, strikes=True),
)


def _change(world):
    ships.play(world, replace(_CHANGED[world.seed % len(_CHANGED)], changes=True))


def _change_schedule(world):
    habits = ships.Habits(grows=True, clusters=2) if world.seed % 2 else ships.Habits(names=True)
    schedule.play(world, replace(habits, changes=True))


#: Kind of history → how it is played.
KINDS: dict[str, Callable[[World], None]] = {
    "lanes": lanes.play,
    "takeovers": partial(lanes.play, habits=ships.Habits(strikes=True)),
    "runs": ships.play,
    "growth": _habits(ships.Habits(grows=True)),
    "clusters": _habits(ships.Habits(clusters=2, grows=True)),
    "schedule": partial(schedule.play, habits=ships.Habits(grows=True)),
    "renames": _habits(_RENAMES),
    "unasked": _habits(replace(_RENAMES, clusters=2, unasked=True)),
    "reship": _habits(ships.Habits(reships=True, strikes=True)),
    "order": _habits(ships.Habits(ordered=True, grows=True)),
    "objects": _habits(ships.Habits(objects=True)),
    "packed": _habits(replace(_RENAMES, packs=True)),
    "broken": _habits(ships.Habits(breaks=True)),
    "roots": _habits(replace(_RENAMES, moves=True)),
    "ledgers": _habits(ships.Habits(loses_ledger=True, strikes=True)),
    "topics": _habits(ships.Habits(remakes=True, strikes=True)),
    "replaced": _habits(ships.Habits(skips=True)),
    "parked": _habits(ships.Habits(away=True, strikes=True)),
    "archive": partial(schedule.play, habits=ships.Habits(archives=True, strikes=True)),
    "headers": _habits(ships.Habits(headers=True)),
    "copies": _habits(replace(_RENAMES, copies=True)),
    "zombies": _habits(replace(_RENAMES, zombies=True)),
    "listing": _habits(replace(_RENAMES, while_listed=True)),
    "stores": partial(schedule.play, habits=ships.Habits(stores=True, grows=True)),
    "named": partial(schedule.play, habits=ships.Habits(names=True)),
    "changes": _change,
    "changed-schedule": _change_schedule,
}
#: Seeds that once failed, one a line: kind, number, and the fault. They are played first.
KEPT = Path(__file__).with_name("seeds.txt")
_LANES_SHARE = 0.63  # where a minute holds 10,000 of them, it holds 500 whole histories, too
#: Share of the time that goes to each kind.
_SHARES = {kind: (1 - _LANES_SHARE) / (len(KINDS) - 1) for kind in KINDS} | {"lanes": _LANES_SHARE}
_SEEDS_BETWEEN_COLLECTIONS, _MOST_FAILURES, _SHOWN_LINES = 20, 3, 40
_NOT_SHOWN = ("has epoch", "is delayed", "arrives late", "is refused: ", " adds ")


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a seed's course
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed alone")
    parser.add_argument("--kind", choices=KINDS, help="play this kind alone")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each process's CPU time")
    parser.add_argument("--first", type=int, default=0, help="the first seed of each kind")
    parser.add_argument(
        "--without", default="", help=f"leave out faults of a seed: {', '.join(FAULTS)}"
    )
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    logging.getLogger("shipper").setLevel(logging.CRITICAL)
    if asked.seed is not None:
        return _show(asked.kind or "lanes", asked.seed, asked.without.split(","))
    shares = {asked.kind: 1.0} if asked.kind else _SHARES
    failed = [] if asked.kind else [_told(kind, seed) for kind, seed in kept_seeds()]
    began = time.monotonic()
    work = [
        (number, asked.processes, asked.first, asked.seconds, shares)
        for number in range(asked.processes)
    ]
    with multiprocessing.Pool(asked.processes) as pool:
        played = pool.starmap(_play_for, work)
    failed += [why for _, wrong in played for why in wrong]
    counts = ", ".join(f"{sum(count[kind] for count, _ in played):,} of {kind}" for kind in shares)
    print(f"{counts} in {time.monotonic() - began:.0f} s")
    wrong = [why for why in failed if why]
    print("\n".join(wrong) or "no seed broke a promise")
    return 1 if wrong else 0


def kept_seeds() -> list[tuple[str, int]]:
    """Return kind and number of the seeds that once failed."""
    lines = [line.split() for line in KEPT.read_text().splitlines() if line[:1] not in ("", "#")]
    return [(kind, int(seed)) for kind, seed, *_ in lines]


def _play_for(number, of, first, seconds, shares):
    """Play every ``of``-th seed of each kind for its share of the time, which ends with the third
    failure of the kind."""
    counts, wrong = dict.fromkeys(shares, 0), []
    gc.collect()
    gc.freeze()
    gc.disable()  # a look at everything costs more than what a few seeds leave behind
    for kind, share in shares.items():
        ends, seed, failures = time.process_time() + seconds * share, first + number, 0
        while time.process_time() < ends and failures < _MOST_FAILURES:
            if why := _told(kind, seed):
                wrong.append(why)
                failures += 1
            counts[kind] += 1
            seed += of
            if counts[kind] % _SEEDS_BETWEEN_COLLECTIONS == 0:
                gc.collect()
    return counts, wrong


def _told(kind, seed):
    """Play a seed; return what it broke: with as few faults as break it, the course of the last
    moments, and the command that repeats it. Return nothing if it broke nothing."""
    error, _ = _broken(kind, seed, ())
    if error is None:
        return ""
    without = ()
    for fault in FAULTS:
        if _broken(kind, seed, (*without, fault))[0] is not None:
            without += (fault,)
    error, course = _broken(kind, seed, without)
    option = f" --without {','.join(without)}" if without else ""
    return "\n".join(
        [
            f"{kind} {seed}: {type(error).__name__}: {str(error)[:500]}",
            *(f"    {line[:160]}" for line in course[-_SHOWN_LINES:]),
            f"    python -m tests.sim --kind {kind} --seed {seed}{option}",
        ]
    )


def _broken(kind, seed, without):
    """Play a seed; return what it broke, and its course without what producers only prepare."""
    world = World(seed, keeps_log=bool(without), without=without)
    error = None
    try:
        KINDS[kind](world)
    except Exception as raised:
        error = raised
    return error, [line for line in world.log or () if not any(word in line for word in _NOT_SHOWN)]


def _show(kind, seed, without):
    world, failed = World(seed, keeps_log=True, without=without), False
    try:
        KINDS[kind](world)
    except Exception:
        failed = True
        traceback.print_exc(file=sys.stdout)
    print("\n".join(world.log or ()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
