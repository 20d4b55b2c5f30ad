"""The gates: checks before the first byte leaves and after the last one arrived, all of them asked of Great Expectations.

Great Expectations judges figures, never records: those of the source gate come from one Spark aggregate per scope.
``evaluate_source`` and ``evaluate_delivery`` give one result per check and never raise for a check that cannot be evaluated: such
a check blocks. ``closed`` says which results close the gate. Importing this package imports Great Expectations, which takes
3–11 s: import it only where a gate runs.
"""

from __future__ import annotations

import os

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # Great Expectations reads it while it is imported, so it comes first

from spark_jobs.gates.delivery import Evidence, evaluate_delivery
from spark_jobs.gates.listing import Listing
from spark_jobs.gates.source import Evaluation, Source, evaluate_source
from spark_jobs.gates.verdict import closed, closed_message

__all__ = ["Evaluation", "Evidence", "Listing", "Source", "closed", "closed_message", "evaluate_delivery", "evaluate_source"]
