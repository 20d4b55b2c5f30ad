"""A source that is away for a while costs no file and no run, and what is wrong with it is told as
what it is."""

import threading
from contextlib import contextmanager

import pytest
from shipper_tools.dev.hdfs import HdfsServer

from tests import warm
from tests.doubles.object_store import S3Double
from tests.integration.hdfs_world import hdfs_files, runner

from .world import lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: S3A's own patience, which else outlasts a test.
IMPATIENT = {
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "1",
    "spark.hadoop.fs.s3a.retry.interval": "100ms",
}


@pytest.fixture
def store():
    with S3Double() as double:
        yield double


@contextmanager
def back_after(seconds, start):
    timer = threading.Timer(seconds, start)
    timer.start()
    yield
    timer.join()


def write_pipeline(world, store, **source):
    s3 = {"endpoint": store.endpoint, "path_style": True, "credentials": "anonymous"}
    world.write_pipeline(
        source={"path": f"s3a://b-{world.name}/logs/", "settle": "0s", "s3": s3, **source},
        runner={"driver_memory": "1g", "conf": IMPATIENT},
    )


def put(world, store, name, content, **more):
    store.put(f"b-{world.name}", f"logs/{name}", content, **more)


def numbered(name, count):
    return b"".join(b"%s %d %s\n" % (name.encode(), n, b"x" * (n % 90)) for n in range(count))


def ships(world):
    done = warm.run(world._steps("r1", "gate_source", "ship:local"))
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.long
def test_an_endpoint_that_is_away_for_seconds_costs_no_run_and_no_object(world, store):
    contents = {f"{n}.log": numbered(f"file{n}", 50) for n in range(12)}
    contents["long.log"] = numbered("long", 60_000)
    for name, content in contents.items():
        put(world, store, name, content)
    write_pipeline(world, store, wait="0s")
    store.stop()
    world.fails(code=1, says=r"cannot be listed: 127\.0\.0\.1:\d+ does not answer")
    write_pipeline(world, store)
    with back_after(12, store.__enter__):
        world.steps_done("r1", "plan")
    store.dies_at = ("logs/long.log", 1_500_000)
    back = threading.Event()

    def come_back():
        while store.running and not back.wait(0.2):
            pass
        back.wait(12)
        store.__enter__()

    thread = threading.Thread(target=come_back, daemon=True)
    thread.start()
    ships(world)
    assert store.dies_at is None, "it died amid the file"
    back.set()
    thread.join()
    assert world.read() == lines_of(*contents.values())


@pytest.mark.long
def test_what_s3_refuses_is_told_by_its_code(world, store):
    put(world, store, "a.log", b"one\n")
    put(world, store, "cold.log", b"two\n", storage_class="INTELLIGENT_TIERING")
    write_pipeline(world, store)
    for code, status, says in (
        ("InvalidAccessKeyId", 403, r"does not know the access key"),
        ("ExpiredToken", 400, r"login has expired"),
        ("AccessDenied", 403, r"no permission to list it"),
        ("NoSuchBucket", 404, r"no such bucket"),
    ):
        store.refusals = {"LIST": (status, code)}
        said = world.fails(code=1, says=says)
        assert not {"Exception", "amazon"} & set(said.replace(".", " ").split()), said
    store.refusals = {"GET logs/cold": (403, "InvalidObjectState")}
    world.fails(code=1, says=r"cold\.log: it is archived \(InvalidObjectState\): restore it")
    assert world.read() == lines_of(b"one\n"), "the other one is shipped"
    store.refusals = {}
    world.steps_done("r2", "plan", "gate_source")
    store.refusals = {"(HEAD|LIST|GET)": (403, "InvalidAccessKeyId")}
    said = world.steps_fail("r2", "ship:local")
    assert "InvalidAccessKeyId" in said, "also where the answer to HEAD has no code"
    store.refusals = {}
    world.run()
    assert world.read() == lines_of(b"one\n", b"two\n")


@pytest.mark.long
def test_a_store_that_says_slow_down_is_asked_again(world, store):
    contents = [numbered(f"file{n}", 50) for n in range(6)]
    for n, content in enumerate(contents):
        put(world, store, f"{n}.log", content)
    write_pipeline(world, store)
    store.slow_down_each = 3
    assert world.run()["delivered"] == 300
    assert len(store.asked) > 9
    assert world.read() == lines_of(*contents)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One of its own, since it is killed."""
    with HdfsServer(tmp_path_factory.mktemp("hdfs"), die_with_parent=True) as found:
        yield found


@pytest.mark.long
def test_a_namenode_that_is_away_for_half_a_minute_costs_no_run_and_no_file(
    world, server, tmp_path
):
    contents = [numbered(f"file{n}", 200) for n in range(40)]
    folder = tmp_path / "logs"
    for n, content in enumerate(contents):
        (folder / str(n % 8)).mkdir(parents=True, exist_ok=True)
        (folder / str(n % 8) / f"{n}.log").write_bytes(content)
    with hdfs_files(server) as files:
        files.put(folder, f"/{world.name}")
    source = {"path": f"{server.uri}/{world.name}/*/", "settle": "0s"}
    world.write_pipeline(source=source, runner=runner())
    server.kill("namenode")
    with back_after(20, lambda: server.revive("namenode")):
        world.steps_done("r1", "plan")
    server.kill("namenode")
    with back_after(20, lambda: server.revive("namenode")):
        ships(world)
    assert world.read() == lines_of(*contents)
