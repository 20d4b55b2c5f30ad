"""Folders that the platform lets runs read."""

from __future__ import annotations

from pathlib import Path

from shipper.config.load import load_platform
from shipper.config.rules import SCHEME, resolve_uri
from shipper.driver.engine import Engine, Listed
from shipper.errors import SourceError


def refuse_outside(config_dir: Path, engine: Engine, listed: Listed) -> None:
    """Raise SourceError for an entry outside of `allow.sources`, by the path that was really
    listed.

    The configuration is checked as text when it is loaded. This check knows what placeholders,
    globs and named files came to."""
    allow = load_platform(config_dir).allow
    if allow is None or allow.sources is None:
        return
    schemes = {file.id.path.partition(":")[0] for file in listed.files}
    named = [resolve_uri(config_dir, root) for root in allow.sources]
    # The jars of another scheme may be missing.
    wanted = [root for root in named if not SCHEME.match(root) or root.partition(":")[0] in schemes]
    roots = tuple(engine.qualified_folder(root) for root in wanted) if schemes else ()
    for file in listed.files:
        if not f"{file.id.path}/".startswith(roots):
            raise SourceError(
                f"{file.under} leads to {file.id.path}, which lies outside the folders that "
                f"the platform allows (`allow.sources`: {', '.join(allow.sources)}). Nothing "
                "was sent. Correct `source.path`, or ask the owner of the platform's file.",
                code="SHIP-107",
            )
