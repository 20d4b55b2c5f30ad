"""An entry of an object store is its key: shipped, or left out by its own name. The store is a
double, since one that keeps files cannot hold such keys."""

import pytest

from tests.doubles.object_store import S3Double

from .world import lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture(scope="module")
def store():
    with S3Double(page=3) as double:
        yield double


class Keys:
    """A pipeline over a bucket of its own."""

    def __init__(self, world, store):
        self.world, self.store, self.bucket = world, store, f"b-{world.name}"
        self.uri = f"s3a://{self.bucket}"
        store.objects[self.bucket] = {}
        store.refusals.clear()

    def put(self, key, content=b"one\n", **more):
        self.store.put(self.bucket, key, content, **more)

    def source(self, path="logs/", **more):
        s3 = {"endpoint": self.store.endpoint, "path_style": True, "credentials": "anonymous"}
        self.world.write_pipeline(
            source={"path": f"{self.uri}/{path}", "settle": "0s", "s3": s3, **more},
            runner={"driver_memory": "1g"},
        )

    def plan(self):
        """The keys of the plan, and those that are left out by their code."""
        found = self.world.plan()
        left = {}
        for row in found.left_out:
            keys = (path.removeprefix(f"{self.uri}/") for path in (row.path, *row.more))
            left[row.code] = tuple(sorted([*left.get(row.code, ()), *keys]))
        return sorted(file.path.removeprefix(f"{self.uri}/") for file in found.files), left


@pytest.fixture
def keys(world, store):
    return Keys(world, store)


@pytest.mark.long
def test_an_object_of_the_folders_name_hides_nothing_that_is_in_the_folder(keys):
    for number in range(5):
        keys.put(f"web/06/{number}.log", b"%d\n" % number)
    keys.put("web/06", b"")
    inside = [f"web/06/{number}.log" for number in range(5)]
    for recursive in (False, True):
        keys.source("web/06/", recursive=recursive)
        assert keys.plan() == (inside, {"not-a-folder": ("web/06",)})
    keys.source("web/*/")
    assert keys.plan() == (inside, {"not-a-folder": ("web/06",)})
    keys.source("w*/06/")
    assert keys.plan() == (inside, {"not-a-folder": ("web/06",)})
    report = keys.world.report()
    assert sum(keys.world.read().values()) == 5
    assert report.fresh_until == {}, "somebody may have meant to put it there"
    keys.source("web/06")
    assert keys.plan() == (["web/06", *inside], {}), "without the slash both are named"
    keys.source("web/", recursive=True)
    assert keys.plan() == (["web/06", *inside], {})
    keys.source("web/")
    assert keys.plan() == (["web/06"], {"folder": ("web/06",)})
    del keys.store.objects[keys.bucket]["web/06"]
    keys.put("web/07/a.log")
    keys.source("web/06/0.log/", when_empty="succeed")
    assert keys.plan() == ([], {"not-a-folder": ("web/06/0.log",)})


ODD = ("d//a.log", "d/./a.log", "d/x/../a.log", "d/sub//a.log", "d/full/", "/a.log", "//[x/a.log")


@pytest.mark.long
def test_keys_that_no_path_leads_to_are_left_out_by_name_and_no_other_file_fails(keys):
    for key in ODD:
        keys.put(key, b"odd\n")
    good = ["d/a.log", "d/full/b.log", "d/sub/a.log", "d/x/a.log"]
    for key in good:
        keys.put(key, key.encode() + b"\n")
    keys.put("d/", b"")
    keys.put("d/empty/", b"")
    keys.put("d/_temporary//a.log", b"no log\n")
    in_d = tuple(sorted(key for key in ODD if key.startswith("d/")))
    keys.source("d/", recursive=True)
    assert keys.plan() == (good, {"unaddressable-key": in_d, "hidden": ("d/_temporary//a.log",)})
    keys.source("d/")
    assert keys.plan() == (
        ["d/a.log"],
        {
            "unaddressable-key": ("d/./", "d//"),
            "folder": ("d/empty", "d/full", "d/sub", "d/x"),
            "hidden-folder": ("d/_temporary",),
        },
    )
    keys.source("d/full/")
    assert keys.plan() == (["d/full/b.log"], {"unaddressable-key": ("d/full/",)})
    keys.source("*/a.log")
    assert keys.plan() == (["d/a.log"], {"unaddressable-key": ("/",)})
    keys.source("", recursive=True, include="*.log")
    files, left = keys.plan()
    assert files == good
    assert set(left["unaddressable-key"]) == {*ODD} - {"d/full/"}
    assert left["unwanted"] == ("d/full/",), "by its name"

    keys.world.report()
    assert keys.world.read() == lines_of(*(key.encode() + b"\n" for key in good))


@pytest.mark.long
def test_archived_objects_are_left_out_until_they_are_restored(keys):
    keys.put("logs/a.log", b"one\n")
    keys.put("logs/b.log", b"two\n", storage_class="GLACIER")
    keys.put(
        "logs/c.log", b"three\n", storage_class="DEEP_ARCHIVE", restore='ongoing-request="true"'
    )
    keys.put("logs/d.txt", b"four\n", storage_class="GLACIER")
    keys.put("logs/e.log", b"five\n", storage_class="GLACIER_IR")
    keys.source(include="*.log")
    assert keys.plan() == (
        ["logs/a.log", "logs/e.log"],
        {"archived": ("logs/b.log", "logs/c.log"), "unwanted": ("logs/d.txt",)},
    )
    expiry = 'ongoing-request="false", expiry-date="Fri, 21 Dec 2035 00:00:00 GMT"'
    keys.put("logs/b.log", b"two\n", storage_class="GLACIER", restore=expiry)
    keys.world.run()
    assert keys.world.read() == lines_of(b"one\n", b"two\n", b"five\n")
