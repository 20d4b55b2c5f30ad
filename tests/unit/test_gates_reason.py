import errno
import subprocess

import pytest

from shipper import runner
from shipper.errors import SourceError
from spark_jobs import reason

CAST = (
    '[CAST_INVALID_INPUT] The value \'SECRET\' of the type "STRING" cannot be cast to "INT". '
    "SQLSTATE: 22018"
)


def told(error):
    return reason.of_exception(error).text


def test_a_value_that_spark_quotes_is_left_out():
    assert told(RuntimeError(CAST)).startswith(
        "Spark stopped with CAST_INVALID_INPUT: an expression of the pipeline"
    )
    assert "`try_cast`" in told(RuntimeError(CAST))
    assert "SECRET" not in told(RuntimeError(CAST))


def test_a_log_line_cannot_pass_for_sparks_own_words():
    lines = [
        "x [SECRET] y",
        "ValueError: [SECRET]",
        "[USER_RAISED_EXCEPTION] [SECRET] Encountered error while reading file SECRET. ",
    ]
    assert not [line for line in lines if "SECRET" in told(ValueError(line))]


def test_java_errors_without_a_name_give_their_class():
    text = "An error occurred while calling o9.count.\n: java.io.IOException: SECRET"
    assert told(RuntimeError(text)) == (
        "it raised java.io.IOException; the text may quote log lines, so it is left out; `-v` "
        "(SHIPPER_LOG=info) shows it"
    )


FAILED_TASK = (
    "An error occurred while calling o88.collectToPython.\n: org.apache.spark.SparkException: Job "
    "aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost "
    "task 0.3 in stage 1.0 (TID 3) (127.0.0.1 executor 0): "
)
PYTHON_RAISED = (
    "org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] x: Traceback (most recent "
    "call last):\n"
    '  File "/x/worker.py", line 9, in main\n'
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'java.io.IOException: Cannot run program "/opt/SECRET/bin/python": error=2, No such '
            "file or directory",
            "no Python",
        ),
        (
            'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such '
            "file or directory",
            "no Python",
        ),
        (f"{PYTHON_RAISED}ModuleNotFoundError: No module named 'spark_jobs'\n", "lacks shipper"),
        (
            f"{PYTHON_RAISED}pyspark.serializers.SerializationError: Caused by Traceback (most "
            "recent call last):\n  File SECRET\n"
            "AttributeError: Can't get attribute '_tell' on <module 'spark_jobs.sink' from '/x'>\n",
            "lacks shipper",
        ),
        (
            "org.apache.spark.SparkException: \nError from python worker:\n  /usr/bin/python3: No "
            "module named pyspark",
            "does not start",
        ),
        (
            f"{PYTHON_RAISED}pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python "
            "in worker SECRET",
            "another version",
        ),
    ],
)
def test_what_executors_lack_is_named_with_the_remedy(text, says):
    found = told(RuntimeError(FAILED_TASK + text))
    assert says in found
    assert "`runner.archive`" in found
    assert "SECRET" not in found


def test_a_line_that_speaks_of_a_missing_module_is_not_taken_for_one():
    text = f"{PYTHON_RAISED}ValueError: SECRET ModuleNotFoundError: No module named 'shipper'\n"
    found = told(RuntimeError(FAILED_TASK + text))
    assert "lacks shipper" not in found
    assert "SECRET" not in found


def test_shippers_own_errors_are_for_people():
    assert (
        told(SourceError("cannot read /logs/a: denied")) == "cannot read /logs/a: denied [SHIP-301]"
    )


def test_both_shapes_of_exception_info_are_understood():
    none = {"raised_exception": False, "exception_traceback": None, "exception_message": None}
    assert reason.of_exception_info(none) is None
    assert reason.of_exception_info({"some metric": none}) is None
    failed = {"raised_exception": True, "exception_traceback": "SECRET", "exception_message": CAST}
    for info in (failed, {"some metric": none, "another": failed}):
        assert "CAST_INVALID_INPUT" in reason.of_exception_info(info)
        assert "SECRET" not in reason.of_exception_info(info)


TASK = (
    "An error occurred while calling o98.save.\n: org.apache.spark.SparkException: Job aborted due "
    "to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in "
    "stage 3.0 (TID 6) (127.0.0.1 executor driver): "
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "java.lang.OutOfMemoryError: Java heap space\n\tat x",
            "Spark's Java ran out of memory: give it more (`runner.driver_memory`)",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). "
            "Consider",
            "a Python process of Spark's was killed",
        ),
        ("java.io.IOException: No space left on device", "a disk is full"),
        (
            "java.lang.StackOverflowError\n\tat java.util.regex",
            "ran out of stack, most likely in a regular expression",
        ),
    ],
)
def test_what_is_known_of_a_java_error_has_its_remedy(text, says):
    for wrapped in (TASK + text, "An error occurred while calling o98.save.\n: " + text):
        assert says in told(RuntimeError(wrapped))


def test_a_log_line_cannot_choose_the_remedy():
    for text in (
        "[CAST_INVALID_INPUT] The value 'java.lang.OutOfMemoryError: x' of the type",
        TASK + "java.lang.IllegalStateException: java.lang.OutOfMemoryError: SECRET",
        "java.io.IOException: x No space left on device",
        f"java.lang.IllegalStateException: {TASK}java.lang.OutOfMemoryError",
    ):
        said = told(RuntimeError(text))
        assert "memory" not in said
        assert "full" not in said
        assert "SECRET" not in said


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/tmp/order"),
            "/tmp/order: the disk is full: make room",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/runs/x"), "has no permission"),
        (
            OSError(errno.EROFS, "Read-only file system", "/runs/x"),
            "/runs/x: the file system is mounted read-only",
        ),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "No route to host"),
        (MemoryError(), "memory ran out"),
        (
            ModuleNotFoundError("No module named 's3fs'", name="s3fs"),
            "the Python package s3fs is missing",
        ),
        (KeyError("SECRET"), "it raised KeyError, which was not expected"),
    ],
)
def test_errors_of_python_say_what_happened_and_quote_nothing(error, says):
    said = told(error)
    assert says in said
    assert "SECRET" not in said


def test_a_defect_of_shippers_own_has_its_place():
    with pytest.raises(AttributeError) as raised:
        list(reason._parts(None))
    assert "it raised AttributeError in spark_jobs/reason.py, line " in told(raised.value)


@pytest.mark.parametrize(
    ("program", "code", "says"),
    [
        ("kill -9 $$", "SHIP-801", "by somebody"),
        ("exit 137", "SHIP-809", "`runner.driver_memory`"),
        ("exit 52", "SHIP-809", "`runner.driver_memory`"),
        ("kill $$", "SHIP-801", "SIGTERM"),
        ("exit 3", "SHIP-801", "exit code 3; `-v`"),
    ],
)
def test_a_java_process_that_died_is_named_with_how_it_ended(program, code, says, monkeypatch):
    with subprocess.Popen(["sh", "-c", program]) as java:
        monkeypatch.setattr(reason, "java_process", lambda: java)
        monkeypatch.setattr(runner, "_OOM_KILLS_BEFORE", 3)
        monkeypatch.setattr(runner, "oom_kills", lambda: 3)
        refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        cause = reason.of_exception(refused)
        assert (cause.code, says in cause.text) == (code, True)


def test_a_java_process_that_the_kernel_may_have_killed_is_told_about_memory(monkeypatch):
    with subprocess.Popen(["sh", "-c", "kill -9 $$"]) as java:
        monkeypatch.setattr(reason, "java_process", lambda: java)
        for kills in (4, None):
            monkeypatch.setattr(runner, "_OOM_KILLS_BEFORE", 3 if kills else None)
            monkeypatch.setattr(runner, "oom_kills", lambda kills=kills: kills)
            cause = reason.of_exception(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
            assert cause.code == "SHIP-809"


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("Command exited with code 52", "SHIP-809"),
        ("Command exited with code 137", "SHIP-809"),
        (
            "Container killed by YARN for exceeding physical memory limits. 2.1 GB of 2 GB used.",
            "SHIP-809",
        ),
        (
            "Container from a bad node: container_1_0001_01_000002 on host: n1. Exit status: 137. "
            "Diagnostics: SECRET",
            "SHIP-809",
        ),
        ("The executor with id 3 exited with exit code 143(SIGTERM).", "SHIP-801"),
        ("The executor with id 3 exited with exit code 137(SIGKILL, possible OOM).", "SHIP-809"),
        (
            "Remote RPC client disassociated. Likely due to containers exceeding thresholds, or "
            "network issues. Check driver logs for WARN messages.",
            "SHIP-801",
        ),
    ],
)
def test_a_lost_executor_is_told_with_the_key_that_helps(why, code):
    lost = "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: "
    cause = reason.of_exception(RuntimeError(FAILED_TASK + lost + why))
    assert cause.code == code
    assert "`spark.executor.memory`" in cause.text
    assert "driver_memory" not in cause.text
    assert "SECRET" not in cause.text


def test_memory_of_an_executor_is_not_the_drivers():
    cause = reason.of_exception(
        RuntimeError(f"{FAILED_TASK}java.lang.OutOfMemoryError: Java heap space\n\tat x")
    )
    assert cause.code == "SHIP-809"
    assert "`spark.executor.memory`" in cause.text
    assert "driver_memory" not in cause.text


def test_a_connection_that_is_refused_while_java_lives_is_just_that(monkeypatch):
    monkeypatch.setattr(reason, "_JAVA_ENDS_WITHIN_SECONDS", 0.1)
    with subprocess.Popen(["sleep", "60"]) as java:
        monkeypatch.setattr(reason, "java_process", lambda: java)
        said = told(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))
        java.kill()
    assert said == "nothing listens at that address and port: check that the service is up"
