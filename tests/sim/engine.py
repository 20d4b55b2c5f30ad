"""The engine behind :class:`shipper.driver.engine.Engine` that reads a simulated source, without
Spark and without a JVM. Each task attempt runs in a simulated process of its own."""

import functools
import zlib
from dataclasses import replace

import pyarrow as pa
import xxhash

from shipper import runtime
from shipper.driver.engine import Listed, SourceJudged
from shipper.driver.files import ListedFile
from shipper.driver.pieces import PieceReport, file_pieces
from shipper.errors import SourceUnreachable
from shipper.finding import fail
from shipper.ledger.sums import ByteSum
from shipper.report.plan_result import Beginning
from shipper.report.results import CheckResult
from shipper.types import FileId
from shipper.windows.window import to_ms
from shipper.worker import task as sink_task
from shipper.worker.pool import LanePool
from shipper.worker.receipt import Receipt
from tests.sim.primitives import Future
from tests.sim.source import HEAD_LINES, LINE_BYTES, topic_of
from tests.sim.world import Process, World

_SLICE = 5
_ATTEMPTS = 4
_SECOND, _LOWEST = (
    1 << 62,
    -(1 << 63),
)  # how the column `split` says that a split ends, or its reading
_PAGE = 2
_PARKED_BYTES = 20_000
_NAMES = ["split", "value", "checksum", "topic"]

#: No fault of a world causes these.
_BUGS = (LookupError, AttributeError, AssertionError, TypeError, ValueError)


class FilesEngine:
    """Reads the simulated source."""

    version = "4.2"

    def __init__(self, pipeline, source, name, hurt):
        self.pipeline, self.source, self.name, self.hurt = pipeline, source, name, hurt
        self.between_pages = lambda: None
        """Called between two pages of a listing."""

    def start(self):
        pass

    start_java = begin = begin_to_stop = stop = abandon = start

    def refuse_unsafe_sql(self, config_dir):
        pass

    def source_requests(self):
        return {}

    def cause(self, error):
        return fail(self.reason(error))

    def reason(self, error):
        if isinstance(error, _BUGS) and not World.current.over:
            World.current.failures.append((self.name, error))
        return f"{type(error).__name__}: {error}"

    def qualified_folder(self, folder):
        return self.source.root

    def missing(self, paths):
        return []

    def list_files(self, paths, *, most, modified=None):
        """List the folder page by page, as a file system does: what changes between two pages is
        seen in one of them, in both, or in none. Files that are asked for by name are looked at."""
        if paths[0] != self.source.root:
            named = self.look_for(paths).values()
            return Listed([replace(found, under=found.uri) for found in named if found])
        if self.source.breaks and World.current.chance(0.2):
            raise SourceUnreachable("the listing broke off")
        start, end = (to_ms(modified.start), to_ms(modified.end)) if modified else (0, 1 << 62)
        found = {}
        seen = ""
        self.source.listed_by.append(process := World.current.process)
        while page := sorted(path for path in self.source.files if path > seen)[:_PAGE]:
            for path in page:
                file = self.source.files[path]
                id = FileId(path, file.size_bytes, file.modified_ms)
                if start <= file.modified_ms < end:
                    found[id] = ListedFile(id, path, under=paths[0], etag=file.etag)
            seen = page[-1]
            runtime.sleep(0.01)
            self.between_pages()
        self.source.listed_by.remove(process)
        return Listed(list(found.values()))

    def look_at(self, files):
        for planned in files:
            runtime.sleep(0.001)
            file = self.source.files.get(planned.path)
            if file is None or file.size_bytes < planned.size_bytes:
                planned.problem, planned.passing = "it is gone", True
            elif planned.size_bytes:
                planned.format = "gzip" if file.packed else "plain"
                planned.head = _head_of(file)

    def look_for(self, paths):
        runtime.sleep(0.001)
        there = {path: self.source.files.get(path) for path in paths}
        return {
            path: file
            and ListedFile(FileId(path, file.size_bytes, file.modified_ms), path, etag=file.etag)
            for path, file in there.items()
        }

    def take_sample(self, plan):
        return ""

    def judge_source(
        self, checks, plan, left, runs_uri,
        config_dir, phases,
    ):  # fmt: skip
        passed = CheckResult(check="files", severity="block", passed=True, expected="", observed="")
        return SourceJudged([passed])

    def read_through(self, files):
        pass

    def sum_up(self, files):
        for planned, lengths in files:
            runtime.sleep(0.001)
            file = self.source.files.get(planned.path)
            if file is None or not _is_planned(file, planned):
                planned.problem, planned.passing = "it is gone", True
                continue
            size = file.lines * LINE_BYTES
            planned.beginnings += [
                Beginning(length=n)
                if n > size
                else Beginning(
                    length=n,
                    sum=str(content_of(file, 0, n // LINE_BYTES)),
                    ends_line=True,
                    whole=n == size,
                )
                for n in lengths
            ]

    def job(self, order, cluster, files, *, long_lines):
        return SimJob(self, order, cluster, files)

    def batches(self, piece, number, reports, topics):
        """Read one piece, as long as its file is the one that was planned. Lines are routed to the
        ``topics`` of the order by their last digit."""
        planned, lines_read = piece.file, 0
        end = min(piece.end, planned.size_bytes) // LINE_BYTES
        file = self.source.files.get(planned.path)  # once it is open, it may be renamed
        if file is not None and file.packed:
            end = file.lines
        is_cut_off = self.source.breaks and World.current.chance(0.1)
        if is_cut_off or (self.source.breaks and World.current.chance(0.05)):
            end -= 3
            self.source.is_misread |= not is_cut_off
        while True:
            if file is None or not _is_planned(file, planned):
                yield _batch(~(number ^ _LOWEST), (None,))
                read = lines_read * LINE_BYTES
                gone = PieceReport(number, read, read, lines_read, "it is gone", passing=True)
                reports.append(gone)
                return
            first = piece.start // LINE_BYTES + lines_read
            lines = tuple(map(file.line, range(first, min(first + _SLICE, end))))
            if not lines:
                break
            yield _batch(number, lines, topics)
            lines_read += len(lines)
            runtime.sleep(0.01)
        if is_cut_off:
            return
        read, first = lines_read * LINE_BYTES, piece.start // LINE_BYTES
        content = content_of(file, first, first + lines_read)
        stored = file.size_bytes if file.packed else read
        yield _batch(number ^ _SECOND, (f"{stored} {read} {content}".encode(),))
        reports.append(PieceReport(number, stored, read, lines_read, ""))


class BoundedPool(LanePool):
    """A pool that holds no more records than it promises: a transaction for each lane, one that is
    ready, and what is parked. In every second world little may be parked."""

    _largest = 0

    def __init__(self, options, *arguments, **named):
        if World.current.seed % 2:
            options = replace(options, parking_bytes=_PARKED_BYTES)
        super().__init__(options, *arguments, **named)

    def submit(self, chunks):
        self._largest = max(self._largest, sum(chunk.held_bytes for chunk in chunks))
        super().submit(chunks)
        under_way = [*(lane.current for lane in self._lanes), *self._ready]
        held = sum(chunk.held_bytes for chunks in under_way for chunk in chunks)
        held += self._parking.bytes
        most = (self.lanes_count + 2) * self._largest + self.options.parking_bytes
        if held > most:
            error = MemoryError(f"a pool holds {held} bytes, and may hold {most}")
            World.current.failures.append(("pool", error))


class SimJob:
    """Runs the tasks of one ship, and tries each again, as Spark does."""

    def __init__(self, engine, order, cluster, files):
        self._engine, self._order, self._cluster = engine, order, cluster
        self._tasks = order.tasks
        self._pieces = list(file_pieces(files, engine.pipeline.split_size_bytes))
        self._reports = {}
        self._stopped = False

    def run(self, scan):
        with runtime.ThreadPoolExecutor(self._tasks, thread_name_prefix="spark") as pool:
            done = list(pool.map(self._task, range(self._tasks)))
        scan.receipts = [receipt for receipt in done if isinstance(receipt, Receipt)]
        scan.read = scan.records
        scan.reports = [report for reports in self._reports.values() for report in reports]
        if failures := [each for each in done if isinstance(each, Exception)]:
            raise failures[0]

    def _task(self, task):
        error = RuntimeError("the job was stopped")
        for attempt in range(_ATTEMPTS):
            if self._stopped:
                break
            answer = self._attempt(task, attempt)
            if isinstance(answer, Receipt):
                return answer
            error = answer
        return error

    def _attempt(self, task, attempt):
        """Run one attempt; give it up for lost when its process is dead, or does not answer."""
        here = World.current
        process = Process(f"{self._engine.name}.{self._cluster.name}.task{task}.{attempt}")
        self._engine.hurt(process)
        answer = Future()
        reports = []

        def work():
            try:
                receipt = sink_task.ship_task(
                    self._order, self._cluster, self._batches(task, reports), task,
                    task + self._tasks * attempt, attempt,
                )  # fmt: skip
                if len(reports) < len(self._pieces[task :: self._tasks]):
                    raise RuntimeError("the JVM's reader failed")
                answer.set_result(receipt)
            except Exception as error:
                answer.set_result(error)

        here.spawn(work, "task", process)
        silent_since = None
        while not answer.wait(1.0):
            quiet = process.dead or process.paused_until > here.seconds
            silent_since = (silent_since or here.seconds) if quiet else None
            if self._stopped and here.chance(0.3):
                here.kill(process)
            if silent_since is not None and here.seconds > silent_since + 5:
                return RuntimeError("the executor was lost")
        self._reports[task] = reports
        found = answer.result()
        return found

    def _batches(self, task, reports):
        """Yield what the worker sees of a task's pieces. Where the JVM's reader fails, the stream
        ends; Spark fails the attempt only after the worker."""
        topics = len(self._order.topics)
        for number, piece in enumerate(self._pieces[task :: self._tasks]):
            if len(reports) < number and self._engine.source.breaks and World.current.chance(0.5):
                return
            yield from self._engine.batches(piece, piece.split, reports, topics)

    def stop(self):
        self._stopped = True

    def read_so_far(self):
        return None


def _is_planned(file, planned):
    now = (file.size_bytes, file.modified_ms, file.etag)
    return now == (planned.size_bytes, planned.modified_ms, planned.etag)


def _head_of(file):
    """The head of HEAD_LINES lines: a file of fewer is as short as a header is elsewhere."""
    beginning = b"".join(file.line(i) + b"\n" for i in range(min(HEAD_LINES, file.lines)))
    return f"{len(beginning)}:{xxhash.xxh64_hexdigest(beginning)}"


def content_of(file, first, end):
    """The sum of lines [first, end). CRC-32 is enough here: of nothing but zeros, the other sum
    adds up as well."""
    crc = 0
    for index in range(first, end):
        crc = zlib.crc32(b"\n", zlib.crc32(file.line(index), crc))
    return ByteSum((end - first) * LINE_BYTES, crc, 0)


def _batch(split, lines, topics=1):
    splits = pa.array([split] * len(lines), pa.int64())
    return pa.RecordBatch.from_arrays([splits, *_columns(lines, topics)], _NAMES)


@functools.lru_cache(1024)
def _columns(lines, topics):
    sums = [None if line is None else _signed(xxhash.xxh64_intdigest(line, 42)) for line in lines]
    numbers = [
        None if line is None or line[:1].isdigit() else topic_of(line) % topics for line in lines
    ]
    return (pa.array(lines, pa.binary()), pa.array(sums, pa.int64()), pa.array(numbers, pa.int32()))


def _signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value
