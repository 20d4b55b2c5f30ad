"""Restrictions of a pipeline's expressions beyond Spark's: found in the plan that Spark makes of an
expression, not in its text.

A file is known by its lines' numbers, and a retry reads it again. So an expression must give the
same result for the same line each time, read only that line and its file, and make one value of it.
Otherwise a half-shipped file would be finished with other records (lost, doubled), or a file's
count of lines would differ from its count of records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.reason import first_line, no_such_column

_OTHER_LINES = "reads other lines than its own; every line becomes a record by itself"
_CALLS_JAVA = (
    "calls Java code in Spark's processes, which can read their secrets and end them; use the "
    "functions of Spark SQL"
)
_BY_THE_CLOCK = (
    "depends on the moment when the line is read, so a retry would give another record. Take "
    "the time from the line or from the name of its file (`to_timestamp(…)`). Without "
    "`records.timestamp`, Kafka sets a record's time itself"
)
_BY_CHANCE = (
    "may give another value each time the line is read, so a retry would lose or duplicate "
    "records. Derive it from the line"
)
#: Class of an expression → what gives its purpose without chance.
_WITHOUT_CHANCE = {
    "Rand": ": `pmod(xxhash64(value), 100) = 0` is true of one line in a hundred",
    "Uuid": (
        " and its place: `md5(concat_ws(':', file_path, split_start, record_number))` is another "
        "one for each line, and the same on every rerun"
    ),
}
_BY_THE_PLACE = (
    "depends on the place and the user of the run, not on the line; write the value itself"
)
_BY_THE_CUT = (
    "depends on how Spark distributes the work; a record's place is in the ledger, in file_path "
    "and in file_name"
)
_OTHER_DATA = (
    "reads other data than the line, which may change before a retry; write the values "
    "themselves: `status IN (200, 201)`"
)
_MORE_RECORDS = (
    "makes several rows of one line, and one line is one record; keep the values in one, for "
    "example with `to_json`"
)
_SPARKS_FILE = "is empty or changes here; use file_path or file_name"

#: Class of an expression → why it is refused.
_REFUSED = {
    **dict.fromkeys(("CallMethodViaReflection", "TryReflect"), _CALLS_JAVA),
    **dict.fromkeys(
        (
            "CurrentTimestamp",
            "Now",
            "CurrentDate",
            "CurrentTime",
            "LocalTimestamp",
            "CurrentBatchTimestamp",
        ),
        _BY_THE_CLOCK,
    ),
    **dict.fromkeys(
        (
            "CurrentUser",
            "CurrentDatabase",
            "CurrentCatalog",
            "CurrentPath",
            "CurrentTimeZone",
            "SparkVersion",
        ),
        _BY_THE_PLACE,
    ),
    **dict.fromkeys(("InputFileName", "InputFileBlockStart", "InputFileBlockLength"), _SPARKS_FILE),
    **dict.fromkeys(("MonotonicallyIncreasingID", "SparkPartitionID"), _BY_THE_CUT),
    **dict.fromkeys(
        (
            "ScalarSubquery",
            "Exists",
            "InSubquery",
            "ListQuery",
            "LateralSubquery",
            "FunctionTableSubqueryArgumentExpression",
        ),
        _OTHER_DATA,
    ),
    **dict.fromkeys(
        ("WindowExpression", "AggregateExpression", "SessionWindow", "TimeWindow"), _OTHER_LINES
    ),
}
#: Class of a step of the plan, other than a projection, → why it is refused.
_STEPS = {
    "Generate": _MORE_RECORDS,
    "Expand": _MORE_RECORDS,
    "Aggregate": _OTHER_LINES,
    "Window": _OTHER_LINES,
}
_PLAIN_STEPS = ("Project", "LogicalRDD", "LocalRelation")
_FOREIGN = "is not a function of Spark SQL's own, so its behaviour is unknown"
_NO_GROUPS = ("MISSING_GROUP_BY", "MISSING_AGGREGATION", "GROUP_BY_AGGREGATE")
#: Spark replaces these words by the time of reading when they are cast, and in typed literals
#: already while it parses.
_CLOCK_WORDS = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_CLOCK_LITERAL = re.compile(
    r"\b(date|timestamp(_ntz|_ltz)?)\s*'\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE
)
_TO_TIME = (
    "Cast",
    "ParseToTimestamp",
    "ParseToDate",
    "UnixTimestamp",
    "ToUnixTimestamp",
    "GetTimestamp",
)
#: Which child holds the regular expression.
_REGEX_CHILD = dict.fromkeys(
    (
        "RLike",
        "RegExpExtract",
        "RegExpExtractAll",
        "RegExpReplace",
        "RegExpCount",
        "RegExpInStr",
        "RegExpSubStr",
        "StringSplit",
    ),
    1,
)


@dataclass
class Node:
    """A step of a plan, or a part of an expression."""

    name: str
    package: str
    fields: dict[str, Any]
    children: list[Node] = field(default_factory=list)
    constant: bool = False
    """True if only literals are below it, or it is one."""


def nodes_in(value: Any) -> list[Node]:
    """Return all nodes of a tree that Spark writes as JSON: lists of nodes, parents before their
    children, in whose fields are such lists again. A condition of a thousand parts is a thousand
    levels deep, so nothing here recurs."""
    found: list[Node] = []
    left = [value]
    while left:
        value = left.pop()
        if not isinstance(value, list):
            continue
        if not value or not all(isinstance(entry, dict) and "class" in entry for entry in value):
            left += value
            continue
        found += _tree(value)
        left += [inside for entry in value for inside in entry.values()]
    return found


def _tree(entries: list[dict[str, Any]]) -> list[Node]:
    nodes: list[Node] = []
    open_nodes: list[Node] = []
    for entry in entries:
        package, _, name = str(entry["class"]).rpartition(".")
        node = Node(name.rstrip("$"), package, entry)
        while open_nodes and len(open_nodes[-1].children) == open_nodes[-1].fields["num-children"]:
            open_nodes.pop()
        if open_nodes:
            open_nodes[-1].children.append(node)
        nodes.append(node)
        open_nodes.append(node)
    for node in reversed(nodes):
        node.constant = node.name == "Literal" or (
            bool(node.children) and all(child.constant for child in node.children)
        )
    return nodes


@dataclass(frozen=True)
class Analysed:
    """An expression over the columns of ``frame``, analysed by Spark. Nothing is read for it."""

    spark: SparkSession
    sql: str
    frame: DataFrame
    """The frame with this one expression selected."""
    plan: Any
    """Plan in the JVM."""

    @classmethod
    def of(cls, spark: SparkSession, frame: DataFrame, sql: str) -> Analysed:
        """Analyse an expression. Raises Spark's error if the analysis fails."""
        selected = frame.select(F.expr(sql))
        return cls(spark, sql, selected, selected._jdf.queryExecution().analyzed())

    @cached_property
    def nodes(self) -> list[Node]:
        return nodes_in(json.loads(self.plan.toJSON()))

    def refused(self) -> str | None:
        """Return why the expression cannot be used, or None."""
        steps = [
            node.name
            for node in self.nodes
            if ".plans." in node.package or node.package.endswith(".execution")
        ]
        for node in self.nodes:
            if why := _REFUSED.get(node.name):
                return f"{_called(node)} {why}"
            if node.package and not node.package.startswith("org.apache.spark.sql."):
                return f"{node.package}.{node.name} {_FOREIGN}"
            if node.name in ("ScalaUDF", "PythonUDF", "ApplyFunctionExpression"):
                return f"it {_FOREIGN}"
        if odd := [step for step in steps if step not in _PLAIN_STEPS]:
            return f"it {next((_STEPS[step] for step in odd if step in _STEPS), _OTHER_DATA)}"
        if _CLOCK_LITERAL.search(self.sql) or any(_cast_of_clock_word(node) for node in self.nodes):
            return f"'now', 'today', 'tomorrow' or 'yesterday' as a time {_BY_THE_CLOCK}"
        if not self.plan.deterministic() or any(_random_iv(node) for node in self.nodes):
            instead = (_WITHOUT_CHANCE.get(node.name) for node in self.nodes)
            return f"it {_BY_CHANCE}{next(filter(None, instead), '')}"
        if (count := len(self.frame.columns)) != 1:
            return (
                f"it gives {count} columns where one value is needed; `to_json(struct(*))` makes "
                "one of them"
            )
        return None

    def fault(self) -> str | None:
        """Return the part that would fail at the first line: an invalid regular expression, a
        constant that cannot be computed."""
        for node in self.nodes:
            pattern = _pattern(node)
            if pattern is not None and (why := regex_fault(self.spark, pattern)):
                return why
        if any(node.children and node.constant for node in self.nodes):
            try:
                self.frame._jdf.queryExecution().optimizedPlan()
            except Exception as error:
                return f"it fails for every line: {first_line(error)}"
        return None


def regex_fault(spark: SparkSession, pattern: str) -> str | None:
    """Check a regular expression now, which Spark compiles only when it meets the first record."""
    try:
        spark._jvm.java.util.regex.Pattern.compile(pattern)  # type: ignore[union-attr]
    except Exception as error:
        java = getattr(error, "java_exception", None)
        why = first_line(error) if java is None else str(java.getMessage()).splitlines()[0]
        return f"{pattern!r} is not a Java regular expression: {why}"
    return None


def why_not_analysed(error: Exception, columns: Iterable[str]) -> str:
    """Return Spark's sentence, or ours where Spark's is about queries over tables, or proposes
    columns that are not for expressions. ``columns``: those of the frame."""
    condition = getattr(error, "getCondition", lambda: None)() or ""
    if condition.split(".")[0] in _NO_GROUPS:
        return f"it {_OTHER_LINES}"
    return no_such_column(error, columns) or first_line(error)


def _pattern(node: Node) -> str | None:
    """Return the regular expression of a function that takes one, if it is written out."""
    place = _REGEX_CHILD.get(node.name)
    if place is None or len(node.children) <= place or node.children[place].name != "Literal":
        return None
    fields = node.children[place].fields
    return str(fields["value"]) if fields["dataType"] == "string" else None


def _called(node: Node) -> str:
    return {"AggregateExpression": "it", "WindowExpression": "it"}.get(node.name, f"{node.name}:")


#: Make a text of a time, by a pattern.
_FROM_TIME = frozenset({"FromUnixTime", "DateFormatClass"})


def _cast_of_clock_word(node: Node) -> bool:
    """Return True for a time that is made of a clock's word, or of a constant that is computed:
    only Spark's optimizer knows what that is."""
    if node.name == "Cast" and not str(node.fields["dataType"]).startswith(("date", "timestamp")):
        return False
    return node.name in _TO_TIME and any(
        child.constant and (_CLOCK_WORDS.match(_text(child)) if _text(child) else _is_made(child))
        for child in node.children[:1]
    )


def _text(node: Node) -> str:
    """Return a literal's text; empty for any other node."""
    is_text = node.name == "Literal" and node.fields["dataType"] == "string"
    return str(node.fields["value"]) if is_text else ""


def _is_made(node: Node) -> bool:
    """Return True for a constant text that may be put together to any word. One that a pattern
    makes of a time is none, unless the pattern quotes something."""
    if node.name == "Literal":
        return False
    if node.name in _FROM_TIME:
        return any("'" in _text(child) for child in node.children)
    return True


def _random_iv(node: Node) -> bool:
    """Return True for `aes_encrypt` without an initialisation vector: it takes a random one, and
    Spark calls it deterministic nevertheless."""
    if node.name != "AesEncrypt" or len(node.children) < 5:
        return False
    mode, vector = node.children[2], node.children[4]
    while vector.children:
        vector = vector.children[0]
    return (
        mode.fields.get("value") != "ECB"
        and vector.name == "Literal"
        and not vector.fields.get("value")
    )
