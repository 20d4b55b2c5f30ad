"""The JVM that this process starts: at once and without Spark, for looking at files; a SparkContext
is made in it when there is something to scan or to ship. Its own words on standard error, filtered;
and whether it still lives. docs/adr/0014 says why it is started like that."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shipper import runtime
from shipper.driver import kerberos
from shipper.errors import SparkUnavailable
from shipper.java import find_java
from shipper.stopping import Stopped
from shipper.terminal import visible
from spark_jobs import class_data, java_command

_HERE = Path(__file__).parent
#: Every JVM of Spark's prints this, and nothing can be done about it.
_NOISE = ("WARNING: Using incubator modules: jdk.incubator.vector",)
_LOOKS_EVERY_SECONDS = 0.01
#: How a JVM says why it ends: an exception, its causes, and its own refusal, in two lines.
_IN_MAIN, _CAUSED_BY = 'Exception in thread "main" ', "Caused by: "
_OF_JVM = ("Error occurred during initialization of VM", "Error: ", "Unrecognized ", "Invalid ")
_KEPT_LINES, _LONGEST_REASON, _LAST_WORDS_SECONDS = 200, 400, 2.0
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


@dataclass
class _Jvm:
    """JVM that this process has started. Its start may still fail."""

    process: subprocess.Popen[bytes]
    folder: Path
    """Folder with the file that the JVM writes when Python may connect."""
    words: _Words
    has_archive: bool
    address: tuple[int, str] | None = None
    """Port and secret."""


_jvm: _Jvm | None = None
_gateway: Any = None
_starts = runtime.RLock()
"""Held while a JVM is begun and waited for. Spark starts in a thread of its own, and whoever looks
at files meanwhile needs the same JVM; its address is there to be read once."""


def log_settings() -> Path:
    """Return log4j's settings: nothing; with ``-v`` (``SHIPPER_LOG``) errors with their stacks."""
    return _HERE / (
        "log4j2-verbose.properties" if os.environ.get("SHIPPER_LOG") else "log4j2.properties"
    )


def begin_java(settings: Mapping[str, str], *, options: Sequence[str] | None = None) -> None:
    """Start the JVM if there is none, and do not wait for it: Python has enough to import
    meanwhile. Does nothing if `spark-submit` starts the JVM, or if one is running already.
    ``options`` replace the options for a fast start. Raises JavaUnavailable."""
    global _jvm
    with _starts:
        if _jvm is None and _gateway is None and _PORT not in os.environ:
            _jvm = _begin(settings, options, class_data.archive())


def _begin(
    settings: Mapping[str, str],
    options: Sequence[str] | None,
    archive: Path | None,
) -> _Jvm | None:
    if options is None:
        options = class_data.options(settings, archive)
    command = java_command.command(_of_submit(settings), options)
    if command is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="shipper-java-"))
    command = _with_class_path_in_file(command, folder / "class-path")
    environment = {
        **os.environ,
        **java_command.environment(java_command.spark_home()),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "connection"),
    }
    with _Words() as words:
        # Ctrl-C is for Python, which ends Java in good order. A shell does this, since threads may
        # run by now, and Python code between fork and exec could wait for one of them for ever.
        process = subprocess.Popen(
            ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command],
            env=environment, stdin=subprocess.PIPE, stdout=words.pipe, stderr=words.pipe,
        )  # fmt: skip
    return _Jvm(process, folder, words, archive is not None)


def _of_submit(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings for `SparkSubmit`, which logs in by a keytab unless the master is a
    standalone one. The SparkContext gets the real master."""
    is_kerberized = settings["spark.master"].startswith("kerberized:")
    return {**settings, "spark.master": "local"} if is_kerberized else settings


def _with_class_path_in_file(command: Sequence[str], file: Path) -> list[str]:
    """Return the command with its class path in an argument file of Java's, which is read as it
    starts: 10 kB of jars would hide all else that `ps` shows of it."""
    java, option, path, *rest = command
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    file.write_text(f'{option} "{quoted}"\n')
    return [java, f"@{file}", *rest]


def _address(settings: Mapping[str, str]) -> tuple[int, str] | None:
    """Return where the JVM listens that was begun, before or now; None if only `spark-submit` can
    start one. Raises JavaUnavailable, and SparkUnavailable if the JVM died before it listened."""
    global _jvm
    with _starts:
        begin_java(settings)
        if _jvm is not None and _jvm.address is None:
            _jvm.address = _wait_for(_jvm)
            if _jvm.address is None and _jvm.has_archive and _jvm.words.reason() is None:
                # Whatever is wrong with the archive, it is only a way to be fast.
                _jvm = _begin(settings, None, None)
                if _jvm is not None:
                    _jvm.address = _wait_for(_jvm)
        if _jvm is not None and _jvm.address is None:
            died, _jvm = _jvm, None
            raise _died(died.words, f"it ended with exit code {died.process.returncode}")
        return _jvm.address if _jvm is not None else None


def _died(words: _Words, how: str) -> SparkUnavailable:
    why = words.reason() or how
    is_login = kerberos.is_refused(why)
    remedy = kerberos.remedy() if is_login else "Correct what it says, then run again"
    return SparkUnavailable(
        f"Spark's Java process died before it was of use: {why}. Nothing was sent. {remedy}. `-v` "
        "(SHIPPER_LOG=info) shows all that it wrote.",
        code=kerberos.CODE if is_login else "SHIP-808",
    )


def _wait_for(jvm: _Jvm) -> tuple[int, str] | None:
    written = jvm.folder / "connection"
    try:
        while not written.is_file():
            if jvm.process.poll() is not None:
                return None
            runtime.sleep(_LOOKS_EVERY_SECONDS)
        content = written.read_bytes()  # it gets its name when it is complete
    finally:
        shutil.rmtree(jvm.folder, ignore_errors=True)
    jvm.words.pass_on()
    port, length = struct.unpack_from("!ii", content)
    return port, content[8 : 8 + length].decode()


def file_gateway(settings: Mapping[str, str]) -> Any:
    """Return Py4J's gateway to the JVM, which needs no Spark; that of Spark, if there is one.
    Raises JavaUnavailable and SparkUnavailable if none can be started."""
    global _gateway
    if _gateway is not None:
        return _gateway
    if _PORT in os.environ:  # under spark-submit, and wherever somebody shares a JVM
        _gateway = _connected(int(os.environ[_PORT]), os.environ[_SECRET])
    elif (address := _address(settings)) is not None:
        _gateway = _connected(*address)
    else:
        _gateway = _launched(settings)
    return _gateway


def _connected(port: int, secret: str) -> Any:
    # The same choice as in pyspark.java_gateway, and as the JVM makes it.
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true":
        from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

        parameters = JavaParameters(port=port, auth_token=secret, auto_convert=True)
        return ClientServer(
            java_parameters=parameters, python_parameters=PythonParameters(port=0, eager_load=False)
        )
    from py4j.java_gateway import GatewayParameters, JavaGateway

    return JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True)
    )


def spark_gateway(settings: Mapping[str, str]) -> Any | None:
    """Return a gateway for a SparkContext in that JVM. None where pyspark finds it itself: in the
    environment, or since it has one."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or _PORT in os.environ:
        return None
    if (address := _address(settings)) is None:
        return _gateway if _gateway is not None else _launched(settings)
    # As pyspark is told of a JVM that is there. Nothing that Spark starts shall believe that it is
    # told.
    os.environ[_PORT], os.environ[_SECRET] = str(address[0]), address[1]
    try:
        gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    assert _jvm is not None
    gateway.proc = _jvm.process
    return gateway


def _launched(settings: Mapping[str, str]) -> Any:
    """Launch the JVM through `spark-submit`, which looks at all that may be set up on this
    machine. Raises JavaUnavailable and SparkUnavailable."""
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    find_java()
    conf = SparkConf(loadDefaults=False).setAll(list(_of_submit(settings).items()))
    try:
        with _Words() as words:
            gateway = launch_gateway(conf, {"stderr": words.pipe})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        raise _died(words, error.getCondition() or "it did not listen") from error
    words.pass_on()
    return gateway


class _Words:
    """Words that a JVM writes. They are kept until it listens: if it dies before, one of them is
    the reason, and a stack helps nobody. With ``-v`` (``SHIPPER_LOG``) all are shown at once."""

    def __init__(self) -> None:
        theirs, self.pipe = os.pipe()
        self._lines = deque[str](maxlen=_KEPT_LINES)
        self._kept = not os.environ.get("SHIPPER_LOG")
        self._lock = runtime.Lock()
        self._reader = runtime.Thread(
            target=self._read, args=(theirs,), name="Java's words", daemon=True
        )
        self._reader.start()

    def __enter__(self) -> _Words:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.pipe)

    def pass_on(self) -> None:
        """Show what was kept, and all that follows."""
        with self._lock:
            for line in self._lines if self._kept else ():
                _show(line)
            self._kept = False

    def reason(self) -> str | None:
        """Return what a JVM that has died said of it; None if it said nothing of the kind."""
        self._reader.join(_LAST_WORDS_SECONDS)
        with self._lock:
            said = [line.strip() for line in self._lines]
        for index, line in enumerate(said):
            if line.startswith(_IN_MAIN):
                causes = [each for each in said[index:] if each.startswith(_CAUSED_BY)]
                return _one_line([line.removeprefix(_IN_MAIN), *causes[-1:]])
            if line.startswith(_OF_JVM):
                return _one_line(said[index : index + 2])
        return None

    def _read(self, pipe: int) -> None:
        for line in _own_words(pipe):
            with self._lock:
                self._lines.append(line)
                if not self._kept:
                    _show(line)


def _one_line(words: Sequence[str]) -> str:
    return visible(" ".join(words))[:_LONGEST_REASON].rstrip(". ")


def _show(line: str) -> None:
    # The reader may be gone; a full pipe would block the JVM.
    with contextlib.suppress(OSError, ValueError):
        print(visible(line), file=sys.stderr, flush=True)


@contextlib.contextmanager
def afterwards(clean_up: Callable[[], object]) -> Iterator[None]:
    """Call Java when the ``with`` block ends, unless a signal ended it: a call that was interrupted
    leaves its connection in the middle of an answer, and the next one on it would wait for ever.
    Java itself ends then."""
    try:
        yield
    except Stopped:
        raise
    except BaseException:
        clean_up()
        raise
    clean_up()


def _own_words(pipe: int) -> Iterator[str]:
    """Yield the lines that the JVM writes, without noise."""
    in_stack = False
    with os.fdopen(pipe, errors="replace") as lines:
        for line in lines:
            if in_stack:
                in_stack = line.startswith((" ", "\n"))
            elif line.startswith("Traceback ") and not os.environ.get("SHIPPER_LOG"):
                # of a worker that lost its JVM, or was told to go; one that fails says so to Spark
                in_stack = True
            elif not line.startswith(_NOISE):
                yield line.rstrip("\n")


def java_process() -> subprocess.Popen[bytes] | None:
    """Return the JVM's process; None before there is one, and under spark-submit, whose child this
    process is."""
    if _jvm is not None:
        return _jvm.process
    spark = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    of_spark = getattr(
        getattr(spark, "_gateway", None), "proc", None
    )  # kept there "for use by the caller", says pyspark's java_gateway
    return of_spark or getattr(_gateway, "proc", None)


def end_unused_java() -> None:
    """End a JVM that was begun and never waited for, and remove its folder: a process that ends
    before it needs Java leaves nothing behind."""
    if _jvm is not None and _jvm.address is None:
        _jvm.process.kill()
        _jvm.process.wait()
        shutil.rmtree(_jvm.folder, ignore_errors=True)


def end_java() -> None:
    """End a JVM that has answered a question or two and runs nothing else. A JVM that this process
    did not start is left alone."""
    if (java := java_process()) is not None:
        java.kill()
