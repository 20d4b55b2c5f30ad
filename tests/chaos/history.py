"""A history of runs against one ledger, with random faults of source, broker and process, compared
with a model at the end: ``python -m tests.chaos.history --runs 500 --seed 1``.

Windows are short, the broker is real, and Spark is not there. Runs are killed and stopped at points
of the protocol, overlap, are taken over and wake up again; files are new, late, replaced, damaged
and gone; records are shipped anew; the ledger is archived. At the end all is healed, one run ships
what is left, and an independent consumer counts every record.

The seed decides the course, not the milliseconds: each turn has random numbers of its own, and what
is hit depends on the machine as well.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.history_course import History, Options
from tests.chaos.history_world import OneBroker, RunServer, ThreeBrokers


def run_history(options: Options, folder: Path) -> bool:
    """Return True if nothing was lost or doubled. Print what happened."""
    print(f"seed {options.seed}, {options.runs} runs, logs in {folder}", flush=True)
    server = RunServer()
    try:
        with (ThreeBrokers if options.brokers == 3 else OneBroker)(folder / "brokers") as brokers:
            brokers.create_topics()
            history = History(brokers, server, folder, options)
            history.go_on(options.runs)
            seconds = time.monotonic() - history.began
            history.settle()
            differences = history.judge()
            explained = list(history.explain(differences)) if differences else []
    finally:
        server.stop()
    expected = history.model.bounds()
    lost = sum(found < bounds.least for _, bounds, found in differences)
    doubled = sum(found > bounds.most for _, bounds, found in differences)
    ends = ", ".join(f"{count} {name}" for name, count in history.ends.most_common())
    print(
        f"{history.launched} runs ({ends}), {seconds:.0f} s, "
        f"{seconds / max(1, history.launched):.2f} s a run"
    )
    fired = ", ".join(f"{name} {times}" for name, times in history.fired.most_common())
    print(f"{history.fired.total()} faults fired: {fired}")
    certain = sum(bounds.least == bounds.most for bounds in expected.values())
    print(
        f"{lost} lost / {doubled} doubled of {len(expected):,} records in topics ({certain:,} with "
        "one count that is right)"
    )
    print(
        "\n".join([*history.faults, *explained]),
        end="\n" if history.faults or explained else "",
        flush=True,
    )
    exact = not differences and not history.faults
    if not exact:
        print(f"repeat it with: {options.command}")
    return exact


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument(
        "--brokers",
        type=int,
        choices=(1, 3),
        default=1,
        help="three: others lead while one is away; half as fast",
    )
    options = Options(**vars(parser.parse_args()))
    folder = Path(tempfile.mkdtemp(prefix="history-"))
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(143)
    )  # so that servers are stopped
    try:
        return 0 if run_history(options, folder) else 1
    except BaseException:
        print(f"repeat it with: {options.command}; logs in {folder}", flush=True)
        raise


if __name__ == "__main__":
    sys.exit(main())
