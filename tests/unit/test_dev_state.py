import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from shipper_tools.dev import ports
from shipper_tools.dev.ports import free_port
from shipper_tools.dev.process import spawn, stop, stop_family
from shipper_tools.dev.state import ServerState

from shipper.processes import ProcessId, exclusive
from tests.waiting import wait_until

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', "
    "flush=True); time.sleep(60)",
]


@pytest.fixture
def sleeper():
    with subprocess.Popen(SLEEP) as process:
        yield process
        process.kill()


def test_a_recycled_process_number_is_not_mistaken_for_the_server(tmp_path, sleeper):
    stranger = ProcessId(sleeper.pid, "another boot:1")
    server = ServerState("kafka", {}, tmp_path, (stranger,))
    assert not server.running

    server.stop(grace_seconds=0)
    assert ProcessId.of(sleeper.pid).alive()


def test_a_process_that_ignores_term_is_killed_after_the_grace(tmp_path):
    server = spawn(DEAF, cwd=tmp_path, output=tmp_path / "out", die_with_parent=False)
    wait_until(lambda: "deaf" in (tmp_path / "out").read_text())

    server.stop(grace_seconds=0.2)
    server.stop(grace_seconds=0.2)

    assert server.exit_code() == -signal.SIGKILL


#: Starts two that sleep, one of them in a session of its own as Airflow's tasks start theirs, and
#: says their numbers.
PARENT = f"""
import subprocess, time
for apart in (False, True):
    print(subprocess.Popen({SLEEP!r}, start_new_session=apart).pid, flush=True)
time.sleep(60)
"""


def test_what_a_server_started_ends_with_it(tmp_path):
    server = spawn(
        [sys.executable, "-c", PARENT], cwd=tmp_path, output=tmp_path / "out", die_with_parent=False
    )
    wait_until(lambda: len((tmp_path / "out").read_text().splitlines()) == 2)
    children = [ProcessId.of(int(pid)) for pid in (tmp_path / "out").read_text().split()]

    stop_family(server.id, grace_seconds=5)

    assert [each.alive() for each in (server.id, *children)] == [False, False, False]


@pytest.mark.parametrize(("die_with_parent", "survives"), [(True, False), (False, True)])
def test_a_killed_parent_takes_its_server_along_if_told_so(tmp_path, die_with_parent, survives):
    code = (
        "import sys, time; from pathlib import Path; from shipper_tools.dev.process import "
        f"spawn;folder = Path({str(tmp_path)!r});server = spawn({SLEEP!r}, cwd=folder, "
        f"output=folder / 'out', die_with_parent={die_with_parent});print(server.id.pid, "
        "server.id.started, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as parent:
        pid, started = parent.stdout.readline().split()
        server = ProcessId(int(pid), started)
        assert server.alive()
        parent.kill()
    try:
        if survives:
            time.sleep(0.5)
            assert server.alive()
        else:
            wait_until(lambda: not server.alive())
    finally:
        stop(server, grace_seconds=0)


def test_a_lock_is_free_again_when_its_holder_is_killed(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from shipper.processes import exclusive\n"
        "with exclusive(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    lock, waited = tmp_path / "lock", threading.Event()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        killer = threading.Thread(target=lambda: waited.wait(20) and holder.kill())
        killer.start()
        with exclusive(lock, on_wait=waited.set):
            killer.join()
    assert waited.is_set()


def test_a_free_port_is_not_handed_out_twice_neither_here_nor_to_another_process(monkeypatch):
    monkeypatch.setattr(ports, "_claims", [])  # and with the list go the claims
    with subprocess.Popen(
        [sys.executable, "-c", _ASKS], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        with ThreadPoolExecutor(8) as pool:
            here = [asked.result() for asked in [pool.submit(free_port) for _ in range(200)]]
        there = [int(port) for port in other.stdout.readline().split()]
        other.communicate()
    assert len(there) == 200
    assert len({*here, *there}) == 400


_ASKS = (
    "from shipper_tools.dev.ports import free_port; print(*(free_port() for _ in range(200)), "
    "flush=True); input()"
)
