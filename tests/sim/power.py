"""``python -m tests.sim.power [--seeds 300] [NAME …]``: remove each rule in turn, and play seeds
until one breaks a promise.

The seed that ``power.md`` keeps is played first. A change of the product gives it another course:
then as many as ``--seeds`` of its kind, or of ``--kinds``, are played until one finds the rule.
``--write`` writes what was found into the table. The command fails if a removed rule is not found.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import itertools
import logging
import multiprocessing
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

import pytest

from tests.mutants.table import MUTANTS
from tests.mutants.trial import Mutant, MutantDrifted
from tests.sim.rules import NOT_MET, PAST, RULES, SCRIPTED, TOGETHER

TABLE = Path(__file__).with_name("power.md")
#: Where the simulated world runs the code.
_SIMULATED = tuple(f"shipper/{name}/" for name in ("driver", "kafka", "ledger", "report", "worker"))
_LANES_FOR_ONE = 20
_HEAD = """# What the simulated world finds

`python -m tests.sim.power --write` wrote this table: it removes one rule at a time, of
`tests/mutants`, of `model/` or of `tests/sim/rules.py`, and plays seeds until one breaks a promise.

A rule that no seed meets has the test of a scripted course instead (`SCRIPTED`).

| rule | of the past | seed | what it breaks |
|---|---|---|---|
"""
_NOT_MET_HEAD = """
No history can meet these rules:

"""


class Found(NamedTuple):
    """What became of a rule's removal."""

    name: str
    seed: str
    """Kind and number of the seed that breaks a promise; empty: none did."""
    what: str


class _Without(importlib.abc.MetaPathFinder):
    """Imports one module without its rule."""

    def __init__(self, rule: Mutant):
        self._rule, self._module = rule, rule.file.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert found.origin is not None
        found.loader = _Loader(fullname, found.origin)
        found.loader.rule = self._rule
        return found


class _Loader(importlib.machinery.SourceFileLoader):
    rule: Mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self.rule.applied_to(Path(self.path).read_text())
        return compile(source, self.path, "exec", dont_inherit=True)


def chosen(names: Sequence[str] = ()) -> list[Mutant]:
    """Return the rules that lie in code that the simulated world runs, and that it can meet."""
    return [
        rule
        for rule in (*MUTANTS, *RULES)
        if rule.file.startswith(_SIMULATED)
        and (rule.name in names if names else rule.name not in NOT_MET)
    ]


def kept() -> dict[str, Found]:
    """Return the rows of the table, by the rule's name."""
    rows = TABLE.read_text().splitlines() if TABLE.exists() else []
    cells = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in rows if row[:2] == "| "
    ]
    return {name: Found(name, seed, what) for name, _, seed, what in cells[1:]}


def _seeds(first, most, kinds):
    """Yield the seed that was kept, and then ``most`` of each of ``kinds`` in turn; of lanes, which
    are short, more. Without ``kinds``: of the kind that was kept."""
    if first:
        kind, number = first.split()
        yield kind, int(number) if number.isdecimal() else number
        kinds = kinds or [kind] * number.isdecimal()
    next_ones = {kind: itertools.count() for kind in kinds}
    for _ in range(most):
        for kind in kinds:
            for _ in range(_LANES_FOR_ONE if kind == "lanes" else 1):
                yield kind, next(next_ones[kind])


def _search(rule, most, kinds):
    """Play seeds without the rule. In a process of its own."""
    before = kept().get(rule.name, Found(rule.name, "", ""))
    if rule.name in SCRIPTED:
        before = Found(rule.name, SCRIPTED[rule.name], "")
    sys.meta_path.insert(0, _Without(rule))
    if rule.name in TOGETHER:
        sys.meta_path.insert(0, _Without(TOGETHER[rule.name]))
    from tests.sim.__main__ import KINDS

    logging.getLogger("shipper").setLevel(logging.CRITICAL)
    for kind, number in _seeds(before.seed, most, kinds or list(KINDS) * (not before.seed)):
        try:
            _play(kind, number)
        except (Exception, pytest.fail.Exception) as error:
            said = " ".join(f"{type(error).__name__}: {error}".split()).replace("|", "/")
            text = said[:60].rstrip()
            if any(broken in text for broken in ("AttributeError", "NameError", "TypeError")):
                raise MutantDrifted(f"{rule.name} met broken code: {text}") from error
            return Found(rule.name, f"{kind} {number}", text)
    return Found(rule.name, "", "")


def _is_sound(found):
    """Return True if a seed breaks no promise while its rule is there. In a process of its own."""
    logging.getLogger("shipper").setLevel(logging.CRITICAL)
    [seed] = _seeds(found.seed, 0, ())
    try:
        _play(*seed)
    except (Exception, pytest.fail.Exception):
        return False
    return True


def _play(kind, number):
    """Play a seed, or the scripted course ``number`` of the module ``kind``."""
    from tests.sim.__main__ import KINDS
    from tests.sim.world import World

    if isinstance(number, int):
        KINDS[kind](World(number))
    else:
        getattr(importlib.import_module(f"tests.sim.{kind}"), number)()


def _written(results):
    past = {rule: name for name, rule in PAST.items()}
    found = [results.get(rule.name, Found(rule.name, "", "")) for rule in chosen()]
    rows = [f"| {f.name} | {past.get(f.name, '')} | {f.seed} | {f.what} |\n" for f in found]
    together = [
        f"\n`{name}` is removed with `{one.name}`, which covers it.\n"
        for name, one in TOGETHER.items()
    ]
    not_met = [f"- {name}: {why}\n" for name, why in NOT_MET.items()]
    return "".join([_HEAD, *rows, *together, _NOT_MET_HEAD, *not_met])


def main() -> int:
    os.environ["PYTHONHASHSEED"] = "0"  # of the processes that play
    parser = argparse.ArgumentParser(prog="python -m tests.sim.power", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these rules")
    parser.add_argument("--seeds", type=int, default=1_000, help="most behind the kept one")
    parser.add_argument(
        "--kinds", default="", help="of these kinds, not of the kept one's: lanes,runs"
    )
    parser.add_argument("--write", action="store_true", help="write the table anew")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    rules, before = chosen(asked.names), kept()
    results = dict(before)
    search = partial(_search, most=asked.seeds, kinds=[k for k in asked.kinds.split(",") if k])
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(asked.processes, maxtasksperchild=1) as pool:
        for found in pool.imap_unordered(search, rules):
            results[found.name] = found
            print(f"{found.name} · {found.seed or 'not found'} · {found.what}", flush=True)
    seen = [results[rule.name] for rule in rules if results[rule.name].seed]
    with processes.Pool(asked.processes) as pool:
        sound = pool.map(_is_sound, seen)
    for found in [one for one, is_sound in zip(seen, sound, strict=True) if not is_sound]:
        print(f"{found.name}: {found.seed} breaks a promise with the rule as well")
        results[found.name] = found._replace(seed="", what="")
    if asked.write:
        TABLE.write_text(_written(results))
    lost = [rule.name for rule in rules if not results[rule.name].seed]
    found_count = len(rules) - len(lost)
    print(f"{found_count} of {len(rules)} removed rules found" + f"; not: {lost}" * bool(lost))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
