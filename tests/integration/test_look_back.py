"""Files that come late, are unfinished, renamed or packed, on each kind of store: each line arrives
once, and `gaps` names the hours that lack something. Random courses are those of the simulated
world."""

import datetime as dt
import gzip
import json
import os
import time

import pytest

from tests import warm

from .hdfs_world import runner
from .test_s3 import Bucket, s3  # noqa: F401
from .world import account_of, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

HOUR = dt.timedelta(hours=1)
BEGIN = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0) - 3 * HOUR
SOURCE = {"settle": "10m", "lookback": "2h", "when_empty": "succeed"}
FOLDERS = "{window_start:%Y-%m-%d/%H}/"


class Local:
    """A folder, as the others are: where the pipeline's files lie, and who writes them."""

    def __init__(self, world, request):
        self.world, self.uri = world, f"{world.logs}/"
        self.runner = {"driver_memory": "1g"}

    def write(self, name, content, seconds):
        path = self.world.logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (seconds, seconds))

    def delete(self, name):
        (self.world.logs / name).unlink()

    def write_pipeline(self, **changes):
        source = {"path": self.uri + FOLDERS, **SOURCE}
        self.world.write_pipeline(source=source, runner=self.runner, **changes)


class InHdfs(Local):
    def __init__(self, world, request):
        super().__init__(world, request)
        self.files, self.runner = request.getfixturevalue("hdfs"), runner()
        self.folder = f"/late/{world.name}/"
        self.uri = self.files.uri(self.folder)

    def write(self, name, content, seconds):
        self.files.write(self.folder + name, content, modified=seconds)

    def delete(self, name):
        self.files.delete(self.folder + name)


class InS3(Local):
    def __init__(self, world, request):
        super().__init__(world, request)
        self.bucket = Bucket(world, request.getfixturevalue("s3"))

    def write(self, name, content, seconds):
        self.bucket.put(name, content)
        kept = self.bucket.server.directory / "data" / self.bucket.name / "logs" / name
        os.utime(kept, (seconds, seconds))

    def delete(self, name):
        self.bucket.client.delete(self.bucket.name, f"logs/{name}")

    def write_pipeline(self, **changes):
        path = f"s3a://{self.bucket.name}/logs/{FOLDERS}"
        self.bucket.write_pipeline(path=path, **SOURCE)
        written = self.world.root / "config" / "pipelines" / f"{self.world.name}.yaml"
        self.world.write_pipeline(**json.loads(written.read_text()) | changes)


def name_in(hour, name):
    return f"{BEGIN + hour * HOUR:%Y-%m-%d/%H}/{name}"


def lines(name, count=200):
    return b"".join(b"%s %04d of a log\n" % (name.encode(), number) for number in range(count))


def ship(world, hour):
    """Run an hour as the schedule does; return how many lines it sent."""
    window = f"{BEGIN + hour * HOUR:%Y-%m-%dT%H:%M}/{BEGIN + (hour + 1) * HOUR:%Y-%m-%dT%H:%M}"
    return account_of(world.report("--scheduled", window=window))["delivered"]


def gaps(world):
    """Return the hours that `gaps` names, up to the last one that was run."""
    words = ["gaps", world.name, "--since", f"{BEGIN:%Y-%m-%dT%H:%M}", "--json"]
    done = warm.run(["shipper", *words, "--config", str(world.root / "config")])
    found = set()
    for gap in json.loads(done.stdout)["gaps"]:
        first, end = (dt.datetime.fromisoformat(at) for at in gap["window"].split("/"))
        found |= set(range((first - BEGIN) // HOUR, (end - BEGIN) // HOUR))
    return found


@pytest.mark.parametrize("where", [Local, InHdfs, InS3])
def test_each_line_arrives_once_and_gaps_names_the_hours_that_lack_some(world, request, where):
    place, old = where(world, request), time.time() - 7_200
    place.write_pipeline(schedule={"cron": "0 * * * *", "start": f"{BEGIN:%Y-%m-%dT%H:%M}"})
    place.write(name_in(0, "a.log"), lines("a"), old)
    place.write(name_in(0, "part.log.tmp"), lines("part"), old)
    place.write(name_in(0, "young.log"), lines("young"), time.time())
    assert ship(world, 0) == 200
    assert gaps(world) == {0, 1, 2}

    for name, to, content in (
        ("a.log", "a.log.gz", gzip.compress(lines("a"))),
        ("part.log.tmp", "part.log", lines("part")),
    ):
        place.write(name_in(0, to), content, old)
        place.delete(name_in(0, name))
    place.write(name_in(0, "young.log"), lines("young"), old)
    place.write(name_in(0, "late.log"), lines("late"), old)
    place.write(name_in(1, "b.log"), lines("b"), old)
    assert ship(world, 1) == 800, "what was packed is known by its content"
    assert gaps(world) == {2}
    assert ship(world, 2) == 0
    assert gaps(world) == set()
    assert world.read() == lines_of(*map(lines, ("a", "part", "young", "late", "b")))
