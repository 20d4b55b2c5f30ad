"""Reasons of failed reads, checks and ships, in words that hold no log content.

Spark quotes the value at fault ("The value 'x' of the type STRING cannot be cast …"), a Python
function may quote any text, and Great Expectations passes both on with a traceback. A step's result
goes to the report and to messages, so only harmless parts are taken from an error that came while
data was read: the class of Java's error, and Spark's name for it. A file that cannot be read is no
error of Spark's: the reader marks its rows (spark_jobs.reader). The reasons of classes are in
:data:`_JAVA`, first match first; those of Python's own errors in :func:`of_python`.
"""

from __future__ import annotations

import errno
import re
import signal
import subprocess
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shipper.config.rules import suggestion
from shipper.driver import kerberos
from shipper.errors import ShipperError, why_system
from shipper.finding import Finding, fail
from shipper.runner import may_lack_memory, why_killed
from spark_jobs.jvm import java_process

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
    r".{0,40}?most recent failure: Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) "
    r"\([\w.:/ -]*?(?:executor (?P<executor>\w+))?\): "
)
_JAVA_CLASS = re.compile(
    r"(?:An error occurred while calling [\w.$]+\s*: )?([a-z][\w$]*(?:\.[\w$]+)+)(?:: |\s|$)"
)

_SHOWS = _MORE.rpartition("; ")[2]
_EXECUTOR_MEMORY = (
    "raise `spark.executor.memory`, or `spark.executor.memoryOverhead` for what Python uses, in "
    "`runner.conf`, or let fewer tasks run at once on each (`spark.executor.cores`). The logs of "
    "the executors show which it was"
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
    code: str


_STORAGE, _SPARK, _MEMORY_CODE = "SHIP-302", "SHIP-801", "SHIP-809"
_DISK, _LINE = "SHIP-810", "SHIP-609"


def _unusable(says: str) -> tuple[str, str]:
    return f"{says}: {_NO_PYTHON}", _SPARK


_KERBEROS = "HDFS refuses the Kerberos login: run `kinit`, or give a keytab in `runner.conf`"
#: What Java raises, from the cause outwards; a class says more than the wrapping around it.
_JAVA = (
    _Known(
        r"java\.lang\.OutOfMemoryError",
        "",
        f"Spark's Java ran out of memory: {_MEMORY}",
        _MEMORY_CODE,
    ),
    _Known(
        r"java\.lang\.StackOverflowError",
        "",
        "Spark's Java ran out of stack, most likely in a regular expression on a very long line: "
        "write it without a group that repeats alternatives (`(a|b)*`), or possessive (`*+`)",
        _LINE,
    ),
    _Known(
        r"org\.apache\.spark\.SparkException",
        "Python worker exited unexpectedly",
        "a Python process of Spark's was killed, most often by the kernel because memory ran out: "
        "let fewer tasks run at once (`runner.cores`), or give the machine more memory",
        _MEMORY_CODE,
    ),
    _Known(
        r"java\.io\.IOException",
        'Cannot run program "[^"]*python',
        *_unusable("Spark's executors have no Python where they look for it"),
    ),
    _Known(
        r"org\.apache\.spark\.api\.python\.PythonException",
        r"(?ms).*^\s*(?:ModuleNotFoundError: No module named "
        r"'(?:shipper|spark_jobs|pyspark|pyarrow|numpy|pydantic|confluent_kafka|xxhash)\b"
        r"|AttributeError: Can't get attribute '\w+' on <module '(?:shipper|spark_jobs)\b)",
        *_unusable(
            "the Python of Spark's executors lacks shipper or a package that shipper needs, or "
            "has another shipper"
        ),
    ),
    _Known(
        r"org\.apache\.spark\.SparkException",
        r"\s*Error from python worker:",
        *_unusable(
            "the Python of Spark's executors does not start, most often since it lacks pyspark"
        ),
    ),
    _Known(
        r"org\.apache\.spark\.api\.python\.PythonException",
        r"(?s).*\[PYTHON_VERSION_MISMATCH\]",
        *_unusable("the Python of Spark's executors is of another version than the driver's"),
    ),
    _Known(
        r"org\.apache\.spark\.SparkException",
        r"Job aborted due to stage failure: Master removed our application",
        "Spark's executors ended as they started, and the master gave the job up: their logs (the "
        "master's page, or `work/` on the workers) say why, most often options of Java in "
        "`runner.conf`, another Java, or an address of the driver's that they cannot reach "
        "(`spark.driver.host`)",
        _SPARK,
    ),
    _Known(
        r"java\.io\.IOException",
        "No space left on device",
        "a disk is full: make room where Spark keeps its temporary files (`spark.local.dir` in "
        "`runner.conf`, TMPDIR), and run again",
        _DISK,
    ),
    _Known(
        r"java\.net\.UnknownHostException",
        "",
        "the name of a host that the source, or Spark, uses cannot be resolved: check the name, "
        "and this machine's DNS",
        _STORAGE,
    ),
    _Known(
        r"java\.net\.(?:ConnectException|NoRouteToHostException|SocketTimeoutException)|org\.apache\.hadoop\.net\.ConnectTimeoutException",
        "",
        "the file system (or Spark's master) could not be reached: check that it is up, its "
        "address, and the network between",
        _STORAGE,
    ),
    _Known(
        r"org\.apache\.hadoop\.security\.(?:AccessControlException|KerberosAuthException)"
        r"|org\.ietf\.jgss\.GSSException",
        r"(?s).*(?:Client cannot authenticate via|SIMPLE authentication is not enabled|failure to "
        r"login|No valid credentials|GSS)",
        _KERBEROS,
        kerberos.CODE,
    ),
    _Known(
        r"org\.apache\.hadoop\.security\.AccessControlException|java\.nio\.file\.AccessDeniedException",
        "",
        "the file system does not let this user read there: check the permissions and the "
        "credentials",
        _STORAGE,
    ),
    _Known(
        r"org\.apache\.hadoop\.fs\.UnsupportedFileSystemException",
        "",
        "no file system is known for the scheme of `source`: correct it, or add its jars to Spark "
        "(`spark.jars.packages` in `runner.conf`)",
        _STORAGE,
    ),
    _Known(
        r"java\.io\.FileNotFoundException",
        "",
        "a file of the plan is gone: run the window again with a new plan",
        "SHIP-308",
    ),
    _Known(
        r"org\.apache\.spark\.SparkException",
        r"Job \d+ cancelled|Job aborted because SparkContext was shut down",
        "the Spark job was stopped from outside",
        _SPARK,
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

_OUT_OF_MEMORY, _NO_ROOM = 52, 53
#: How Spark's own processes end themselves (org.apache.spark.util.SparkExitCode, of 4.2).
_SPARK_EXITS = {
    50: "met an error that nobody caught",
    _NO_ROOM: "found no room for its temporary files",
}
#: Spark's words for a lost executor, and the cluster managers' for its end.
_LOST_EXECUTOR = re.compile(r"ExecutorLostFailure \(executor \S+ exited [^)]*\) Reason: ([^\n]*)")
_EXIT_CODE = re.compile(r"(?i)exit(?:ed with)?(?: exit)? (?:code|status):? (-?\d+)")
_OVER_A_LIMIT = re.compile(r"(?i)killed by YARN for exceeding|beyond the .*memory limit|OOMKilled")
_FULL = (errno.ENOSPC, errno.EDQUOT)


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


def of_exception(error: Exception) -> Finding:
    """Return the cause of an error from while data was read."""
    if isinstance(error, ShipperError):
        return fail(of_building(error), code=error.code)
    if gone := java_is_gone(error):
        return gone
    from pyspark.errors import AnalysisException

    if isinstance(error, AnalysisException):  # raised before any data is read
        said = no_such_column(error) or str(error).splitlines()[0].partition(" SQLSTATE: ")[0]
        return fail(_shortened(said), code="SHIP-205")
    thrown = list(_thrown(error))
    for _, text in thrown:
        if failed := _of_executor(text):
            return failed
    for kind, text in reversed(thrown):
        if known := _known(kind, text):
            return known
    if thrown:
        return _of_text(thrown[0][1], thrown[0][0])
    text = str(error)
    if _CONDITION.match(text) or _JAVA_CLASS.match(text) or _FAILED_TASK.match(text):
        return _of_text(text, type(error).__name__)
    return of_python(error)


def of_python(error: BaseException) -> Finding:
    """Return the cause of an error of Python's own, or of a library's: what happened and where,
    never its text, unless the system wrote it."""
    if isinstance(error, OSError) and error.errno is not None:
        return fail(_shortened(why_system(error)), code=_DISK if error.errno in _FULL else "")
    if isinstance(error, MemoryError):
        return fail(f"memory ran out: {_MEMORY}", code=_MEMORY_CODE)
    if isinstance(error, ModuleNotFoundError) and error.name:
        says = (
            f"the Python package {error.name} is missing in the environment of this process: "
            "install it there"
        )
        return fail(says, code="SHIP-110")
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
    return fail(f"it raised {type(error).__name__}{where}, which was not expected; {_MORE}")


def of_exception_info(info: Mapping[str, Any]) -> str | None:
    """Return the reason in the ``exception_info`` of a result of Great Expectations; None if there
    was no exception.

    It is ``{"raised_exception": …}``, or one such mapping per metric that failed.
    """
    raised = [part for part in _parts(info) if part.get("raised_exception")]
    return _of_text(str(raised[0].get("exception_message")), "an error").text if raised else None


def _parts(info: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield info
    yield from (part for part in info.values() if isinstance(part, Mapping))


def java_is_gone(error: Exception) -> Finding | None:
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
    if code == -signal.SIGKILL and not may_lack_memory():
        return fail(f"Spark's Java process was killed (SIGKILL) {why_killed()}", code=_SPARK)
    return _exit("Spark's Java process", code, _MEMORY)


def _exit(who: str, code: int | None, memory: str) -> Finding:
    """Return how ``who`` ended. ``code``: exit code, negative for a
    signal; None if unknown. ``memory``: what to do about too little memory."""
    if code is not None and code > 128:
        code = 128 - code
    if code == _OUT_OF_MEMORY:
        return fail(f"{who} ran out of memory: {memory}", code=_MEMORY_CODE)
    if code == -9:
        killed = "was killed (SIGKILL), most often by the kernel because memory ran out"
        return fail(f"{who} {killed}: {memory}", code=_MEMORY_CODE)
    if code == -15:
        asked = "by a memory limit, by a machine that is taken away, or by a person"
        return fail(
            f"{who} was told to end (SIGTERM), {asked}. If it was memory, {memory}", code=_SPARK
        )
    if not code:
        return fail(f"{who} is gone. If it was memory, {memory}", code=_SPARK)
    how = _SPARK_EXITS.get(code) or f"ended with exit code {code}"
    return fail(f"{who} {how}; {_SHOWS}", code=_DISK if code == _NO_ROOM else _SPARK)


def _of_executor(text: str) -> Finding | None:
    """Return how the executor ended that failed the job, by Spark's own words; None if the job
    failed otherwise."""
    task = _FAILED_TASK.match(text)
    if task is None or task["executor"] in (None, "driver"):
        return None
    if text.startswith("java.lang.OutOfMemoryError", task.end()):
        return _exit("a Spark executor", _OUT_OF_MEMORY, _EXECUTOR_MEMORY)
    lost = _LOST_EXECUTOR.match(text, task.end())
    if lost is None:
        return None
    if _OVER_A_LIMIT.search(lost[1]):
        return fail(
            f"Spark's executors used more memory than their container has: {_EXECUTOR_MEMORY}",
            code=_MEMORY_CODE,
        )
    if code := _EXIT_CODE.search(lost[1]):
        return _exit("a Spark executor", int(code[1]), _EXECUTOR_MEMORY)
    says = (
        "Spark's executors were lost: their machines, or the network to them, or too little "
        f"memory. Their logs say why. If it was memory, {_EXECUTOR_MEMORY}"
    )
    return fail(says, code=_SPARK)


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


def _known(kind: str, text: str) -> Finding | None:
    return next(
        (
            fail(known.says, code=known.code)
            for known in _JAVA
            if re.fullmatch(known.kind, kind) and re.match(known.begins, text)
        ),
        None,
    )


def _of_text(text: str, kind: str) -> Finding:
    """Return the cause in ``text``, which begins with Spark's own words, as its errors do, or with
    a class name; ``kind``: the error's class otherwise."""
    if failed := _of_executor(text):
        return failed
    if task := _FAILED_TASK.match(text):
        text = text[task.end() :]
    if java := _JAVA_CLASS.match(text):
        kind, rest = java[1], text[java.end() :]
        if known := _known(kind, rest):
            return known
        text = rest if rest.startswith("[") else text
    if condition := _CONDITION.match(text):
        meant = _SQL.get(condition[1].split(".")[0])
        says = _shortened(f"Spark stopped with {condition[1]}{meant or ''}; {_MORE}")
        return fail(says, code=_LINE if meant else "")
    return fail(f"it raised {kind}; {_MORE}")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
