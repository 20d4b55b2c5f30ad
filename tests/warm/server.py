"""A Python that has imported what shipper's commands import, and forks for each of them. Run as
``python -m tests.warm.server SOCKET PYTHON``. With ``MODULE`` behind it, that module is imported,
and runs in place of whatever is asked for: a stand-in that is warm.

A command is what ``python -m MODULE ARGUMENT…`` would run, by the same :mod:`runpy`, with the
arguments, environment, folder and standard streams of whoever asks. The process forks before
anything of Spark's or Kafka's was used, and has one thread.
"""

import contextlib
import gc
import importlib
import io
import marshal
import os
import runpy
import select
import signal
import socket
import struct
import sys
from pathlib import Path

#: What reads the environment or looks at the streams when it is imported (`shipper.cli.main`,
#: `shipper.cli.console`) is left to each command.
IMPORTED = (
    "pandas",
    "pyarrow",
    "pyspark.sql",
    "pyspark.worker",
    "great_expectations",
    "rich.console",
    "rich.table",
    "typer",
    "shipper.driver.run",
    "shipper.driver.plan",
    "shipper.driver.gate_source",
    "shipper.driver.ship",
    "shipper.driver.gate_delivery",
    "spark_jobs.spark_engine",
    "spark_jobs.gates.source",
    "spark_jobs.gates.source_view",
    "spark_jobs.job",
    "spark_jobs.session",
    "spark_jobs.expressions",
    "shipper.report.page",
    "py4j.clientserver",
)
#: A worker daemon makes a process group of its own, which the leader of a session may not.
_LEADS_ITSELF = "pyspark.daemon"
_SIZE = struct.Struct("!I")
_GRACE_SECONDS = 10.0

Request = tuple[list[str], dict[str, str], str]
"""MODULE and its arguments; the environment; the folder."""


def send(connection: socket.socket, request: Request, streams: list[int]):
    body = marshal.dumps(request)
    socket.send_fds(connection, [_SIZE.pack(len(body))], streams)
    connection.sendall(body)


def _receive(connection):
    head, streams, _, _ = socket.recv_fds(connection, _SIZE.size, 3)
    left, body = _SIZE.unpack(head)[0], b""
    while left:
        part = connection.recv(left)
        if not part:
            raise SystemExit(1)
        body, left = body + part, left - len(part)
    return marshal.loads(body), streams


def _serve(path, imported):
    """Returns in the process that is to run a command. This one ends when its standard
    input does."""
    for name in imported:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    _refuse_threads()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                raise SystemExit(0)
            connection, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                return _keep(connection)
            connection.close()


def _refuse_threads():
    """A fork has the calling thread alone, and the locks that others held. jemalloc (pyarrow's)
    prepares its thread for that."""
    found = {
        path.name: path.joinpath("comm").read_text().strip()
        for path in Path("/proc/self/task").iterdir()
    }
    lost = [
        name
        for number, name in found.items()
        if int(number) != os.getpid() and name != "jemalloc_bg_thd"
    ]
    assert not lost, f"a fork would lose threads: {lost}"


def _keep(connection):
    """Stays with the command, to say how it ended, and to end it when whoever asked is gone."""
    request, streams = _receive(connection)
    child = os.fork()
    if child == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return request
    for stream in streams:
        os.close(stream)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)  # a pipe that it held open would never come to its end
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([connection, ended], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGTERM)
        if not select.select([ended], [], [], _GRACE_SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        connection.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _stream(number):
    """As Python makes them when it starts: they remember what kind of file they are."""
    errors = "backslashreplace" if number == 2 else "strict"
    binary = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115 - as long as the process
    return io.TextIOWrapper(
        binary, encoding="utf-8", errors=errors, line_buffering=number == 2 or os.isatty(number)
    )


def _become(request, python):
    """Makes of this process what the command would have found; returns its module."""
    (module, *arguments), environment, folder = request
    if module != _LEADS_ITSELF:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, _stream(number))
        setattr(sys, f"__{name}__", getattr(sys, name))
    sys.argv = [module, *arguments]
    sys.executable = python
    return module


if __name__ == "__main__":
    _, _socket, _python, *_stand_in = sys.argv
    _module = _become(_serve(_socket, _stand_in or IMPORTED), _python)
    runpy.run_module(*(_stand_in or [_module]), run_name="__main__", alter_sys=True)
