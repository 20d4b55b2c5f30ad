"""Great Expectations, asked so that it cannot say yes without having looked.

What it does otherwise, and what is done here (each has a test):

- An expectation of an unknown type is logged and dropped: expectations are built from classes,
  never from names, and counted.
- A suite without expectations passes: :func:`ask` always asks for the row count too, and a question
  without a result is a fault.
- Every column expectation holds on zero rows: an answer holds only if there was a row, or if it is
  about the number of rows.
- An expectation that raises is one more ``success: false`` with an empty result: it becomes a
  fault, which blocks.
- Results come back grouped by column: they are matched by an identity in the expectation's
  ``meta``, never by position.
- The default result format puts values at fault into the results: SUMMARY with no examples.
- Its Spark data source caches the whole frame, and reads it for every other metric (7 scans for
  what one aggregate says): it gets frames of figures, and never one of records.
- It sends analytics, writes a docs site that loads its style from the internet, draws progress
  bars, and its logs may quote values: all of it is off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from great_expectations.expectations.expectation import Expectation

from spark_jobs import reason
from spark_jobs.session import quiet

RESULT_FORMAT = {"result_format": "SUMMARY", "partial_unexpected_count": 0}
_IDENTITY = "shipper_question"
_ROW_COUNT = "row_count"


@dataclass(frozen=True)
class Question:
    """One check, as an expectation."""

    build: Callable[[], Expectation]
    """Function whose errors are faults of the check, so that bounds which contradict each other
    need no care elsewhere."""
    columns: tuple[str, ...] = ()
    """Columns to look at; empty for a question about the number of rows."""


@dataclass(frozen=True)
class Answer:
    """``figures`` is the result as Great Expectations gives it, and ``rows``, the number of rows in
    the frame."""

    holds: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    fault: str | None = None
    """Reason why the question could not be answered. Then ``holds`` is False and ``figures``
    empty."""

    @classmethod
    def impossible(cls, fault: str) -> Answer:
        return cls(False, {}, fault)


def ask(questions: Sequence[Question], frame: pd.DataFrame) -> list[Answer]:
    """Return one answer per question, in their order. Never raises: what cannot be answered says
    so, and does not hold."""
    answers: dict[int, Answer] = {}
    built: dict[int, Expectation] = {}
    for index, question in enumerate(questions):
        try:
            built[index] = _build(question, index, frame.columns)
        except Exception as error:
            answers[index] = Answer.impossible(reason.of_building(error))
    if built:
        try:
            answers |= _validate(questions, built, frame)
        except Exception as error:
            answers |= {index: Answer.impossible(reason.of_exception(error)) for index in built}
    return [answers[index] for index in range(len(questions))]


def _build(question: Question, index: int, columns: Iterable[str]) -> Expectation:
    # Checked first, since Great Expectations would retry three times and then answer with a
    # traceback.
    for column in question.columns:
        if column not in columns:
            raise ValueError(
                f"there is no column {column!r}; there are: {', '.join(sorted(columns))}"
            )
    return _identified(question.build(), index)


def _identified(expectation: Expectation, identity: int | str) -> Expectation:
    expectation.meta = {_IDENTITY: identity}
    return expectation


def _validate(
    questions: Sequence[Question], built: Mapping[int, Expectation], frame: pd.DataFrame
) -> dict[int, Answer]:
    guard = _identified(gxe.ExpectTableRowCountToBeBetween(min_value=1), _ROW_COUNT)  # type: ignore[attr-defined]
    with quiet():
        # Not add_expectation(): it takes two checks that differ only in `meta` for one.
        suite = gx.ExpectationSuite(name="gate", expectations=[guard, *built.values()])
        results = _batch(frame).validate(suite, result_format=RESULT_FORMAT).results
    found: dict[int | str, list[ExpectationValidationResult]] = defaultdict(list)
    for result in results:
        config = result.expectation_config
        if config is not None and config.meta is not None:
            found[config.meta[_IDENTITY]].append(result)
    rows = _one(found[_ROW_COUNT])
    return {
        index: _judged(_one(found[index]), rows, about_rows=not questions[index].columns)
        for index in built
    }


def _one(results: Sequence[ExpectationValidationResult]) -> Answer:
    if len(results) != 1:
        return Answer.impossible(
            f"Great Expectations gave {len(results)} results for it instead of 1"
        )
    (result,) = results
    if fault := reason.of_exception_info(result.exception_info):
        return Answer.impossible(fault)
    if not result.result:
        return Answer.impossible("Great Expectations gave no figures for it")
    return Answer(bool(result.success), result.result)


def _judged(answer: Answer, rows: Answer, *, about_rows: bool) -> Answer:
    """Return the answer, given that it is worth something only if there were rows to look at."""
    if answer.fault is not None:
        return answer
    if rows.fault is not None:
        return Answer.impossible(f"the rows could not be counted: {rows.fault}")
    count = int(rows.figures["observed_value"])
    return Answer(answer.holds and (about_rows or count > 0), {**answer.figures, "rows": count})


def _batch(frame: pd.DataFrame) -> Batch:
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
