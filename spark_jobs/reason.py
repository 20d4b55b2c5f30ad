"""Reasons of failed reads, checks and ships, in words that hold no log content.

Spark quotes the value at fault ("The value 'x' of the type STRING cannot be cast …"), a Python
function may quote any text, and Great Expectations passes both on with a traceback. A step's result
goes to the report and to messages, so only harmless parts are taken from an error that came while
data was read: the class of Java's error, and Spark's name for it. A file that cannot be read is no
error of Spark's: the reader marks its rows (spark_jobs.reader). The reasons of classes are in
:data:`_JAVA`, first match first; those of Python's own errors in :func:`of_python`.
"""

from __future__ import annotations

import re
import subprocess
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shipper.config.rules import suggestion
from shipper.errors import ShipperError, why_system
from spark_jobs.java import java_process

_LONGEST = 400
_JAVA_ENDS_WITHIN_SECONDS = 5.0
"""Time in which Java ends after it stopped answering."""
_MORE = "the text may quote log lines, so it is left out; `-v` (SHIPPER_LOG=info) shows it"
# At the very beginning, where the text is Spark's own; further on it may be a log line that looks
# like it.
_CONDITION = re.compile(
    r"(?:An error occurred while calling [\w.$]+\s*: [\w.$]+: )?\[([A-Z][A-Z0-9_.]*)\]"
)
_FAILED_TASK = re.compile(
    r"(?:An error occurred while calling [\w.$]+\s*: [\w.$]+: )?Job aborted due to stage failure: "
    r".{0,40}?most recent failure: Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([\w.:/ -]*\): "
)
_JAVA_CLASS = re.compile(
    r"(?:An error occurred while calling [\w.$]+\s*: )?([a-z][\w$]*(?:\.[\w$]+)+)(?:: |\s|$)"
)

_MEMORY = (
    "give it more (`runner.driver_memory`), or let fewer tasks run at once (`runner.cores`). Very "
    "long lines, and files that unpack to very much, need the most"
)
_NO_PYTHON = (
    "an archive that `venv-pack` made needs its Python on every worker, at the same path. Or give "
    "the executors a `runner.archive`, or install the driver's environment on every worker at the "
    "path of `runner.python`. Nothing was sent by these tasks"
)


class _Known(NamedTuple):
    kind: str
    """Pattern of the class's whole name."""
    begins: str
    """Pattern that its text must begin with."""
    says: str


#: What Java raises, from the cause outwards; a class says more than the wrapping around it.
_JAVA = (
    _Known(r"java\.lang\.OutOfMemoryError", "", f"Spark's Java ran out of memory: {_MEMORY}"),
    _Known(
        r"java\.lang\.StackOverflowError",
        "",
        "Spark's Java ran out of stack, most likely in a regular expression on a very long line: "
        "write it without a group that repeats alternatives (`(a|b)*`), or possessive (`*+`)",
    ),
    _Known(
        r"org\.apache\.spark\.SparkException",
        "Python worker exited unexpectedly",
        "a Python process of Spark's was killed, most often by the kernel because memory ran out: "
        "let fewer tasks run at once (`runner.cores`), or give the machine more memory",
    ),
    _Known(
        r"java\.io\.IOException",
        'Cannot run program "[^"]*python',
        f"Spark's executors have no Python where they look for it: {_NO_PYTHON}",
    ),
    _Known(
        r"org\.apache\.spark\.api\.python\.PythonException",
        r"(?ms).*^\s*(?:ModuleNotFoundError: No module named "
        r"'(?:shipper|spark_jobs|pyspark|pyarrow|numpy|pydantic|confluent_kafka|xxhash)\b"
        r"|AttributeError: Can't get attribute '\w+' on <module '(?:shipper|spark_jobs)\b)",
        "the Python of Spark's executors lacks shipper or a package that shipper needs, or has "
        f"another shipper: {_NO_PYTHON}",
    ),
    _Known(
        r"org\.apache\.spark\.SparkException",
        r"\s*Error from python worker:",
        "the Python of Spark's executors does not start, most often since it lacks pyspark: "
        f"{_NO_PYTHON}",
    ),
    _Known(
        r"org\.apache\.spark\.api\.python\.PythonException",
        r"(?s).*\[PYTHON_VERSION_MISMATCH\]",
        f"the Python of Spark's executors is of another version than the driver's: {_NO_PYTHON}",
    ),
    _Known(
        r"org\.apache\.spark\.SparkException",
        r"Job aborted due to stage failure: Master removed our application",
        "Spark's executors ended as they started, and the master gave the job up: their logs (the "
        "master's page, or `work/` on the workers) say why, most often options of Java in "
        "`runner.conf`, another Java, or an address of the driver's that they cannot reach "
        "(`spark.driver.host`)",
    ),
    _Known(
        r"java\.io\.IOException",
        "No space left on device",
        "a disk is full: make room where Spark keeps its temporary files (`spark.local.dir` in "
        "`runner.conf`, TMPDIR), and run again",
    ),
    _Known(
        r"java\.net\.UnknownHostException",
        "",
        "the name of a host that the source, or Spark, uses cannot be resolved: check the name, "
        "and this machine's DNS",
    ),
    _Known(
        r"java\.net\.(?:ConnectException|NoRouteToHostException|SocketTimeoutException)|org\.apache\.hadoop\.net\.ConnectTimeoutException",
        "",
        "the file system (or Spark's master) could not be reached: check that it is up, its "
        "address, and the network between",
    ),
    _Known(
        r"org\.apache\.hadoop\.security\.AccessControlException|java\.nio\.file\.AccessDeniedException",
        "",
        "the file system does not let this user read there: check the permissions and the "
        "credentials",
    ),
    _Known(
        r"org\.apache\.hadoop\.fs\.UnsupportedFileSystemException",
        "",
        "no file system is known for the scheme of `source`: correct it, or add its jars to Spark "
        "(`spark.jars.packages` in `runner.conf`)",
    ),
    _Known(
        r"java\.io\.FileNotFoundException",
        "",
        "a file of the plan is gone: run the window again with a new plan",
    ),
    _Known(
        r"org\.apache\.spark\.SparkException",
        r"Job \d+ cancelled|Job aborted because SparkContext was shut down",
        "the Spark job was stopped from outside",
    ),
)

_CANNOT_TAKE = (
    ": an expression of the pipeline cannot take one of the lines. Where a line may be so, use "
    "what gives a null instead, such as"
)
#: Spark's name for what an expression met in a line → what to write.
_SQL = {
    "CAST_INVALID_INPUT": f"{_CANNOT_TAKE} `try_cast`",
    "CAST_OVERFLOW": f"{_CANNOT_TAKE} `try_cast`",
    "CANNOT_PARSE_TIMESTAMP": f"{_CANNOT_TAKE} `try_to_timestamp`",
    "DIVIDE_BY_ZERO": f"{_CANNOT_TAKE} `try_divide`",
    "ARITHMETIC_OVERFLOW": f"{_CANNOT_TAKE} `try_add`, `try_multiply`",
    "INVALID_ARRAY_INDEX": f"{_CANNOT_TAKE} `get(array, n)`",
    "CONVERSION_INVALID_INPUT": f"{_CANNOT_TAKE} `try_to_number`",
}

#: How Spark's own processes end themselves (org.apache.spark.util.SparkExitCode, of 4.2).
_SPARK_EXITS = {
    52: "ran out of memory",
    50: "met an error that nobody caught",
    53: "found no room for its temporary files",
}


def first_line(error: Exception) -> str:
    """Return the sentence of a Spark or Py4J error that people can use, without the JVM's stack."""
    java = getattr(error, "java_exception", None)
    if java is not None:
        while java.getCause() is not None:
            java = java.getCause()
        return str(java.toString()).splitlines()[0]
    from pyspark.errors import AnalysisException

    if isinstance(error, AnalysisException):
        return (error.getMessage() or str(error)).strip().splitlines()[0]
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def no_such_column(error: Exception, columns: Iterable[str] | None = None) -> str | None:
    """Return a sentence about a missing column that an expression names; None for any other error.
    ``columns``: the columns to propose; by default those that Spark proposes. Columns that shipper
    adds for itself are never proposed."""
    condition = getattr(error, "getCondition", lambda: None)() or ""
    if not condition.startswith("UNRESOLVED_COLUMN."):
        return None
    said = error.getMessageParameters()  # type: ignore[attr-defined]
    if columns is None:
        columns = re.findall("`([^`]+)`", said.get("proposal", ""))
    known = [name for name in columns if "!" not in name and name != "split"]
    name = said["objectName"]
    return f"there is no column {name}{suggestion(name.strip('`'), known, 'there are')}"


def of_building(error: Exception) -> str:
    """Return the reason of an error from before any data was looked at: its own text."""
    if unresolved := no_such_column(error):
        return unresolved
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    return _shortened(" ".join(str(message).split()))


def of_exception(error: Exception) -> str:
    """Return the reason of an error from while data was read."""
    if isinstance(error, ShipperError):
        return of_building(error)
    if gone := java_is_gone(error):
        return gone
    from pyspark.errors import AnalysisException

    if isinstance(error, AnalysisException):  # raised before any data is read
        said = no_such_column(error) or str(error).splitlines()[0].partition(" SQLSTATE: ")[0]
        return _shortened(said)
    thrown = list(_thrown(error))
    for kind, text in reversed(thrown):
        if known := _known(kind, text):
            return known
    if thrown:
        return _of_text(thrown[0][1], thrown[0][0])
    text = str(error)
    if _CONDITION.match(text) or _JAVA_CLASS.match(text) or _FAILED_TASK.match(text):
        return _of_text(text, type(error).__name__)
    return of_python(error)


def of_python(error: BaseException) -> str:
    """Return the reason of an error of Python's own, or of a library's: what happened and where,
    never its text, unless the system wrote it."""
    if isinstance(error, OSError) and error.errno is not None:
        return _shortened(why_system(error))
    if isinstance(error, MemoryError):
        return f"memory ran out: {_MEMORY}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f"the Python package {error.name} is missing in the environment of this process: "
            "install it there"
        )
    frames = traceback.extract_tb(error.__traceback__)
    root = Path(__file__).resolve().parents[1]
    ours = [
        frame
        for frame in frames
        if Path(frame.filename).is_relative_to(root / "shipper")
        or Path(frame.filename).is_relative_to(root / "spark_jobs")
    ]
    where = (
        f" in {Path(ours[-1].filename).relative_to(root)}, line {ours[-1].lineno}" if ours else ""
    )
    return f"it raised {type(error).__name__}{where}, which was not expected; {_MORE}"


def of_exception_info(info: Mapping[str, Any]) -> str | None:
    """Return the reason in the ``exception_info`` of a result of Great Expectations; None if there
    was no exception.

    It is ``{"raised_exception": …}``, or one such mapping per metric that failed.
    """
    raised = [part for part in _parts(info) if part.get("raised_exception")]
    return _of_text(str(raised[0].get("exception_message")), "an error") if raised else None


def _parts(info: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield info
    yield from (part for part in info.values() if isinstance(part, Mapping))


def java_is_gone(error: Exception) -> str | None:
    """Return how Spark's Java process ended, if its end caused ``error``; else None. Python itself
    only sees that the process does not answer."""
    java = java_process()
    cut_off = isinstance(error, ConnectionError | EOFError) or (
        type(error).__module__.startswith("py4j") and not _java_error(error)
    )
    if not cut_off:
        return None
    code: int | None = None
    if java is not None:
        try:
            code = java.wait(_JAVA_ENDS_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            return None
    elif isinstance(error, ConnectionError | EOFError):
        return None
    if code in (-9, 137):
        why = "was killed (SIGKILL), most often by the kernel because memory ran out"
    else:
        why = _SPARK_EXITS.get(code or 0) or (
            "is gone" if not code else f"ended with exit code {code}"
        )
    memory = (
        f"; if it was memory, {_MEMORY}"
        if code in (-9, 137, 52, None)
        else f"; {_MORE.rpartition('; ')[2]}"
    )
    return f"Spark's Java process {why}{memory}"


def _java_error(error: BaseException) -> Any:
    """Return the Throwable, if Java raised it."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _thrown(error: Exception) -> Iterator[tuple[str, str]]:
    """Yield (class, text) of what Java raised and of each cause; nothing if the JVM does not
    say."""
    java = _java_error(error)
    for _ in range(20):
        if java is None:
            return
        try:
            found = str(java.getClass().getName()), str(java.getMessage() or "")
            java = java.getCause()
        except Exception:
            return
        yield found
        # Spark passes a task's error on as text.
        if (task := _FAILED_TASK.match(found[1])) and (
            java_class := _JAVA_CLASS.match(found[1], task.end())
        ):
            yield java_class[1], found[1][java_class.end() :]


def _known(kind: str, text: str) -> str | None:
    return next(
        (
            known.says
            for known in _JAVA
            if re.fullmatch(known.kind, kind) and re.match(known.begins, text)
        ),
        None,
    )


def _of_text(text: str, kind: str) -> str:
    """Return the reason in ``text``, which begins with Spark's own words, as its errors do, or with
    a class name; ``kind``: the error's class otherwise."""
    if task := _FAILED_TASK.match(text):
        text = text[task.end() :]
    if java := _JAVA_CLASS.match(text):
        kind, rest = java[1], text[java.end() :]
        if known := _known(kind, rest):
            return known
        text = rest if rest.startswith("[") else text
    if condition := _CONDITION.match(text):
        return _shortened(
            f"Spark stopped with {condition[1]}{_SQL.get(condition[1].split('.')[0], '')}; {_MORE}"
        )
    return f"it raised {kind}; {_MORE}"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
