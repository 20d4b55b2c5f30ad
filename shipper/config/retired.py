"""Table of what was retired before the first release, and what to use instead.

An author whose file still has a retired key, or a script that still calls a retired command, reads
the successor instead of "unknown". The table exists as long as version 0.1 lasts: version 0.2
deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from shipper.config.yaml_file import KeyPath

CODE = "SHIP-209"

#: Key as an author writes it, without positions in lists; or words of a command line, up to a
#: command or an option. → What to use instead.
RETIRED = {
    "records.bundle": "Remove the key: each line is a record of its own, at nearly the same cost.",
    "source.csv.encoding": "Use `source.encoding`.",
    "shipper diff": "Use `shipper validate --against OLD_CONFIG`.",
    "shipper environment": (
        "Pack the environment with a public tool, as docs/how-to/pack-an-environment.md shows."
    ),
    "shipper index": "The Shipments page in Airflow brings its index up to date itself.",
    "shipper ledger export": "Use `shipper ledger show --json`.",
    "shipper quarantine replay": (
        "Use `shipper quarantine export`, correct the file, and ship it by a pipeline, as "
        "docs/how-to/quarantine.md shows."
    ),
    "shipper ui": "Open `Shipments` in Airflow's menu. `shipper gaps` lists incomplete windows.",
}


def instead_of_key(path: KeyPath) -> str | None:
    """Return what to use instead of the key at ``path``; None if it was never a key. A key also
    counts below `defaults` and below one of `clusters`."""
    steps = [step for step in path if isinstance(step, str)]
    suffixes = (".".join(steps[first:]) for first in range(len(steps)))
    return next((RETIRED[key] for key in suffixes if key in RETIRED), None)


def instead_of_command(words: Sequence[str]) -> tuple[str, str] | None:
    """Return the retired command with which ``words`` begin, and what to use instead; None if
    there is none."""
    starts = (" ".join(words[:count]) for count in range(len(words), 0, -1))
    return next(((start, RETIRED[start]) for start in starts if start in RETIRED), None)
