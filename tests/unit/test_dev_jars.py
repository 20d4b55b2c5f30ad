"""The jar cache, against a Maven repository on loopback; the jars are a few bytes."""

import functools
import hashlib
import http.server
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from shipper_tools.dev import jars
from shipper_tools.dev.jars import lock_file, resolve_jars

from shipper.errors import JarsUnavailable
from shipper.jars import MIRROR_VARIABLE, proxies
from shipper.pins import Pin

JARS = {"alpha": b"the first jar", "beta": b"the second jar"}
GROUP, VERSION = "org.example.things", "1.0"


class Repository:
    """A Maven repository that counts how often each file was handed out."""

    def __init__(self, root):
        self.root = root
        self.served = Counter()
        handler = functools.partial(_Handler, self.served, directory=str(root))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def put(self, name, content):
        folder = self.root / GROUP.replace(".", "/") / name / VERSION
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}-{VERSION}.jar").write_bytes(content)


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, served, *args, **options):
        self.served = served
        super().__init__(*args, **options)

    def do_GET(self):
        self.served[self.path.rpartition("/")[2]] += 1
        super().do_GET()

    def log_message(self, format, *args):
        pass


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two jars, a lock called ``things-1.0`` for them, and an empty cache."""
    repository = Repository(tmp_path / "repository")
    for name, content in JARS.items():
        repository.put(name, content)
    monkeypatch.setattr(jars, "LOCKS", tmp_path)
    lock = [
        Pin(GROUP, name, VERSION, len(data), hashlib.sha256(data).hexdigest())
        for name, data in JARS.items()
    ]
    lock_file("things-1.0").write_text("".join(f"{pin}\n" for pin in lock))
    monkeypatch.setenv("SHIPPER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, repository.url)
    thread = threading.Thread(target=repository.server.serve_forever, daemon=True)
    thread.start()
    yield repository
    repository.server.shutdown()
    repository.server.server_close()
    thread.join()


def resolve():
    return resolve_jars("things-1.0")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


EXPECTED = {f"{name}-{VERSION}.jar": content for name, content in JARS.items()}


def test_a_jar_that_is_not_the_locked_one_is_refused_and_not_remembered(repository):
    repository.put("beta", b"THE second jar")  # the same length

    with pytest.raises(
        JarsUnavailable, match=r"org\.example\.things:beta:1\.0 is not the jar that was locked"
    ):
        resolve()
    repository.put("beta", JARS["beta"])

    assert contents(resolve()) == EXPECTED


def test_what_a_killed_fetch_left_does_not_count_as_done(repository):
    folder = resolve()
    (folder / "beta-1.0.jar").write_bytes(b"the sec")
    partial = folder.with_name(f"{folder.name}.partial")
    partial.mkdir()
    (partial / "alpha-1.0.jar").write_bytes(b"the")

    assert contents(resolve()) == EXPECTED
    assert not partial.exists()


def test_a_proxy_that_only_java_was_told_of_is_used(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    told = {
        "JAVA_TOOL_OPTIONS": (
            "-Xmx1g -Dhttps.proxyHost=proxy.example -Dhttps.proxyPort=3128 "
            "-Dhttp.proxyHost=other.example"
        )
    }
    found = proxies(told)
    assert (found["https"], found["http"]) == (
        "http://proxy.example:3128",
        "http://other.example:80",
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://mine.example:8080")
    assert proxies(told)["https"] == "http://mine.example:8080"


def test_processes_that_want_the_same_jars_share_one_fetch(repository):
    code = (
        "import sys; from pathlib import Path; from shipper_tools.dev import jars; jars.LOCKS = "
        "Path(sys.argv[1]);from shipper_tools.dev.jars import resolve_jars; "
        "print(resolve_jars('things-1.0'))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(jars.LOCKS)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    folders = {process.communicate()[0].strip() for process in processes}

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert contents(Path(folders.pop())) == EXPECTED
    assert not folders
    assert repository.served == {"alpha-1.0.jar": 1, "beta-1.0.jar": 1}
