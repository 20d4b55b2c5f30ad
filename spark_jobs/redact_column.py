"""`records.redact` as a column: jvm/shipper/redact does it, beside the rest of the expression, so
no line goes to Python for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, SparkSession

from shipper.config.redact import Redaction


def redaction(spark: SparkSession, rules: Sequence[Redaction]) -> Callable[[Column], Column]:
    """Return a function from bytes to bytes. It has no name in the session, and the keys of hashes
    are in no plan: what Spark shows of it is `redact`."""
    if not rules:
        return lambda column: column
    jvm: Any = spark._jvm
    with _unheard():
        redactor = jvm.shipper.redact.Redactor()
        for rule in rules:
            key = rule.hash_.key.get_secret_value() if rule.hash_ else None
            redactor.add(
                rule.rule,
                rule.regex,
                list(rule.replacement()),
                None if key is None else key.encode(),
            )
    return lambda column: Column(redactor.redacted(column._jc))


@contextmanager
def _unheard() -> Iterator[None]:
    """Silence py4j, which logs each call with its arguments at its finest level."""
    logger = logging.getLogger("py4j")
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
