"""Great Expectations suites that people bring: their JSON, read without Great Expectations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shipper.config.rules import suggestion
from shipper.errors import ConfigError

_SINGLE, _SEVERAL = ("column", "column_A", "column_B"), ("column_list",)


def read_suite(config_dir: Path, path: str) -> dict[str, Any]:
    """Return the suite, as Great Expectations 1.x writes it. Raises ConfigError."""
    file = config_dir / path
    try:
        suite = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"the suite {file} cannot be read: {error}", code="SHIP-201") from error
    found = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(found, list) or not found:
        raise ConfigError(
            f"{file} holds no suite of Great Expectations 1.x: it needs a list `expectations` with "
            "one at least. An empty suite would always pass",
            code="SHIP-201",
        )
    for place, one in enumerate(found):
        if not isinstance(one, dict) or not isinstance(one.get("type"), str):
            old = " (of Great Expectations 0.x: load and save it with 1.x)"
            hint = old if isinstance(one, dict) and "expectation_type" in one else ""
            raise ConfigError(f"{file}: expectations[{place}] has no `type`{hint}", code="SHIP-201")
    return {"name": suite.get("name") or file.stem, "expectations": found}


def unknown_columns(suite: dict[str, Any], columns: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each expectation about a column that the pipeline does not have."""
    for place, one in enumerate(suite["expectations"]):
        kwargs = one.get("kwargs") or {}
        named = [kwargs[key] for key in _SINGLE if key in kwargs]
        named += [name for key in _SEVERAL for name in kwargs.get(key) or ()]
        for name in named:
            if name not in columns:
                yield (
                    f"expectations[{place}] ({one['type']}): no column {name!r}"
                    f"{suggestion(str(name), columns)}"
                )
