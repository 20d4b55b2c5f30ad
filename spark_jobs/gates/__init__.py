"""The source gate: checks before the first byte leaves.

``source.judge_source`` gives one result per check and never raises for a check that cannot be
evaluated: such a check blocks. Figures about records come from one Spark aggregate per scope, so no
record is judged separately.

Great Expectations takes 2.5 to 5 CPU seconds to import (it imports SciPy, Altair and all databases
that it finds). Only ``judging`` imports it; a process that needs no verdict of it does not.
"""

from __future__ import annotations

import os

os.environ["GX_ANALYTICS_ENABLED"] = (
    "false"  # Great Expectations reads it while it is imported, so it comes first
)
