"""The gates: checks before the first byte leaves and after the last one arrived, asked of Great
Expectations.

Great Expectations judges figures, never records: those of the source gate come from one Spark
aggregate per scope. ``source.evaluate_source`` and ``delivery.evaluate_delivery`` give one result
per check and never raise for a check that cannot be evaluated: such a check blocks.
``verdict.closed`` says which results close the gate.

Great Expectations takes 5 CPU seconds to import (it imports SciPy, Altair and all databases that it
finds); ``suite`` does, and so do ``finding`` and ``source``, which need it in any case. So nothing
is imported here.
"""

from __future__ import annotations

import os

os.environ["GX_ANALYTICS_ENABLED"] = (
    "false"  # Great Expectations reads it while it is imported, so it comes first
)
