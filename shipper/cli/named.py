"""Files and clusters that are named on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from shipper.config.load import load_platform
from shipper.config.pipeline import Pipeline
from shipper.config.rules import SCHEME, lies_below, resolve_uri, store_fault
from shipper.errors import UsageError


def named_files(config_dir: Path, paths: Iterable[str]) -> list[str]:
    """Return paths as the steps of a run need them, which may be started elsewhere; symbolic links
    are not followed. What has a scheme stays as it is. Raises UsageError for one that lies where no
    pipeline of the platform may read, or that no path leads to."""
    found = [path if SCHEME.match(path) else os.path.normpath(Path.cwd() / path) for path in paths]
    allow = load_platform(config_dir).allow if found else None
    if allow is not None and allow.sources is not None:
        roots = [resolve_uri(config_dir, root) for root in allow.sources]
        for path in found:
            if not any(lies_below(path, root) for root in roots):
                raise UsageError(
                    f"{path} lies outside the folders that the platform allows "
                    f"(`allow.sources`: {', '.join(allow.sources)}). Name a file in one of "
                    "these folders, or ask the owner of the platform's file.",
                    code="SHIP-107",
                )
    for path in found:
        if fault := store_fault(path):
            raise UsageError(f"{path}: {fault}. Nothing was sent.")
    return found


def check_clusters(pipeline: Pipeline, names: Iterable[str]) -> None:
    """Raise UsageError for a cluster that the pipeline does not ship to."""
    for name in names:
        if name not in pipeline.clusters:
            raise UsageError(
                f"pipeline {pipeline.name} does not ship to cluster {name!r}. Its clusters are "
                f"{', '.join(pipeline.clusters)}.",
                code="SHIP-108",
            )
