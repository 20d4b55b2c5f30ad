"""Great Expectations' verdict on figures of records: each figure is an expectation of its own, and
no comparison of ours stands beside (docs/adr/0018).

It is asked so that it cannot say yes without having looked. What it does otherwise, and what is
done here (each has a test):

- An expectation of an unknown type is logged and dropped, and results come back in another order:
  each figure has a column of its own, by whose name its result is found. A figure without exactly
  one result is a fault, which blocks.
- An expectation holds on zero rows, and for a null: it must have looked at one figure.
- An expectation that raises is one more ``success: false`` with an empty result: it is a fault.
- The default result format puts values at fault into the results: SUMMARY with no examples.
- Its Spark data source caches the whole frame, and reads it for every other metric (7 scans for
  what one aggregate says): it gets a frame of figures, and never one of records.
- It sends analytics, writes a docs site that loads its style from the internet, draws progress
  bars, and its logs may quote values: all of it is off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import great_expectations as gx
import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.core.expectation_validation_result import ExpectationValidationResult
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.datasource.fluent.interfaces import Batch

from spark_jobs import reason
from spark_jobs.gates.figures import Bound
from spark_jobs.session import quiet

RESULT_FORMAT = {"result_format": "SUMMARY", "partial_unexpected_count": 0}
#: It compares floating-point numbers (9 PB, if they are bytes).
_TOLD_APART = 2**53


def verdicts_of(bounds: Mapping[str, Bound]) -> dict[str, bool | str]:
    """Return whether each figure lies within its bounds, or why nobody knows. Never raises."""
    found: dict[str, bool | str] = {
        name: fault for name in bounds if (fault := _fault(bounds[name]))
    }
    asked = {name: bound for name, bound in bounds.items() if name not in found}
    if not asked:
        return found
    try:
        results = _validated(asked)
    except Exception as error:
        return found | dict.fromkeys(asked, reason.of_exception(error).text)
    return found | {name: _verdict(results[name]) for name in asked}


def _fault(bound: Bound) -> str | None:
    if bound.fault is None and abs(bound.value or 0) >= _TOLD_APART:
        return (
            f"its figure is not below {_TOLD_APART:,}, beyond which Great Expectations takes "
            "neighbours for the same"
        )
    return bound.fault


def _validated(bounds: Mapping[str, Bound]) -> Mapping[str, list[ExpectationValidationResult]]:
    with quiet():
        expectations = [
            gxe.ExpectColumnValuesToBeBetween(  # type: ignore[attr-defined]
                column=name, min_value=bound.min, max_value=bound.max
            )
            for name, bound in bounds.items()
        ]
        suite = gx.ExpectationSuite(name="gate", expectations=expectations)
        frame = pd.DataFrame({name: [bound.value] for name, bound in bounds.items()})
        results = batch(frame).validate(suite, result_format=RESULT_FORMAT).results
    found = defaultdict(list)
    for result in results:
        if result.expectation_config is not None:
            found[str(result.expectation_config.kwargs["column"])].append(result)
    return found


def _verdict(results: Sequence[ExpectationValidationResult]) -> bool | str:
    if len(results) != 1:
        return f"Great Expectations gave {len(results)} results for it instead of 1"
    (result,) = results
    if fault := reason.of_exception_info(result.exception_info):
        return fault
    looked_at = (result.result.get("element_count"), result.result.get("missing_count"))
    if looked_at != (1, 0):
        return f"Great Expectations looked at {looked_at[0]} figures of it instead of 1"
    return bool(result.success)


def batch(frame: pd.DataFrame) -> Batch:
    """Make a batch in a context that lives in memory and belongs to this call alone. No docs site,
    no telemetry, no progress bars."""
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
        analytics_enabled=False,
    )
    context = gx.get_context(mode="ephemeral", project_config=config, cloud_mode=False)
    whole = (
        context.data_sources.add_pandas("gate")
        .add_dataframe_asset("frame")
        .add_batch_definition_whole_dataframe("whole")
    )
    return whole.get_batch({"dataframe": frame})
