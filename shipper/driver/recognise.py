"""Files that were delivered under another name, or when they were shorter: candidates by how they
begin, proven by checksums (docs/adr/0030)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import xxhash

from shipper.config.cluster import Cluster
from shipper.config.units import plural
from shipper.driver.connections import Connections
from shipper.driver.context import RunContext
from shipper.driver.engine import FoundFile, Proof, ToProve
from shipper.driver.formats import PLAIN
from shipper.driver.recreated import judge
from shipper.driver.schemas import schema_ids
from shipper.errors import StepResultError
from shipper.kafka.admin import ClusterAdmin
from shipper.ledger.fold import ChunkOfSplit, Chunks, SplitState, covered, standing_as_cut
from shipper.ledger.heads import Heads, head_of
from shipper.ledger.intervals import MOST_RUNS, Interval, IntervalSet, encode_ordinals
from shipper.ledger.log import LedgerLog, ask_committed, ask_heads, ask_state
from shipper.ledger.records import ChunkValue, Moved, MovedKey, MovedValue
from shipper.ledger.takeover import Takeover
from shipper.report.plan_result import ClusterPlan, KnownFile, PlannedFile, RecognisedFile
from shipper.types import FileId, SplitId
from shipper.worker.order import Part

#: Originals of a candidate that are compared: many files may begin alike, as CSV files do. If
#: records depend on the file's path, each original costs a read of the candidate; otherwise one
#: read compares all, and of a log that is rotated for years the ledger has many at a few paths.
_MOST_PATHS, _MOST_ORIGINALS = 16, 256
_PACKED = (".gz", ".zst", ".lz4", ".snappy", ".deflate", ".bz2")
#: Columns of a record that change if the file is cut otherwise.
_OF_THE_CUT = frozenset({"record_number", "split_start"})
#: Columns of a record that change if the file has another path.
_OF_THE_PATH = frozenset({"file_path", "file_name", "window_start", "input_file"})
_UINT64 = 1 << 64

_CUT_OTHERWISE = "it was cut into splits whose lines cannot be counted out in this file"

States = Mapping[int, SplitState]
"""First byte of each split → the split, as a ledger has them of one file."""


class Place(NamedTuple):
    """Place of a split's records in another file."""

    begins: int
    """First byte of the split there."""
    shift: int
    """Ordinal of the first of them there."""


@dataclass
class Recognition:
    """Outcome for the files that a ledger does not know."""

    recognised: list[RecognisedFile] = field(default_factory=list)
    renamed: list[FileId] = field(default_factory=list)
    """Paths of the run whose present file is not the shipped one: its content lies elsewhere, or
    begins differently."""
    successors: list[FileId] = field(default_factory=list)
    """Files that lie where another one was shipped from, begin otherwise, and are new. What lay
    there before was not found."""
    left_out: dict[FileId, str] = field(default_factory=dict)
    """Files that may have been delivered already, which cannot be decided → why."""
    chunks_end: int | None = None
    states: Mapping[FileId, States] = field(default_factory=dict)
    """States of the originals in the ledger."""


def states_of(chunks: Chunks, files: Collection[FileId]) -> dict[FileId, States]:
    """Return what the ledger has of each of ``files``, a set or the keys of a dict."""
    return {
        file: {split.start: chunks.splits[split] for split in splits}
        for file, splits in chunks.splits_of(files).items()
    }


def is_wanted(context: RunContext) -> bool:
    source = context.pipeline.source
    return not context.reship and (
        source.on_renamed == "recognise" or source.on_replaced == "continue"
    )


def recognise(
    context: RunContext,
    to: Connections,
    ledger: LedgerLog,
    known: Chunks,
    files: Sequence[PlannedFile],
    listed: Collection[FileId],
    beginnings: Mapping[FileId, bytes],
) -> Recognition:
    """Find out which of ``files`` were delivered as another file. ``known``: the ledger's entries
    on them; ``listed``: all files of the plan; ``beginnings``: the first bytes of the readable
    files. Notes the faults of files that cannot be read. Raises ShipperError."""
    # An empty file is never left, and may lie where a file was that was renamed.
    if not files and all(
        file in known.digests or not known.files_of_path.get(file.path) for file in listed
    ):
        return Recognition()
    new = {
        file.id: file
        for file in files
        if file.id in beginnings and not file.problem and file.id not in known.digests
    }
    begun = {file.id for file in files} & known.digests.keys()
    heads = ledger.look(ask_heads({file: beginnings[file] for file in new}))
    found = Recognition(chunks_end=heads.end)
    for file in begun & heads.renamed:
        found.left_out[file] = (
            "it was shipped in part, and then in part under another name, so the rest of it is "
            "unknown. Nothing of it was sent. Give it the other name again, or re-ship it with "
            "--reship"
        )
    candidates = _candidates(context, ledger, to.client, heads, new, listed)
    _prove(context, to.cluster, candidates)
    found.states = {
        original.id: original.states for candidate in candidates for original in candidate.originals
    }
    elsewhere = set(heads.elsewhere)
    for candidate in sorted(candidates, key=lambda each: each.has_own_path):
        _conclude(context, candidate, found, elsewhere)
    at = {file.path for file in listed}
    found.renamed = sorted(file for file in heads.renamed | elsewhere if file.path in at)
    if context.pipeline.source.on_replaced == "continue":
        _look_at_paths(known, files, listed, beginnings, found)
    return found


def confirm(
    context: RunContext,
    planned: ClusterPlan,
    taken: Takeover,
    ledger: LedgerLog,
    files: Sequence[PlannedFile],
) -> list[Moved]:
    """Return the records to write about the files that the plan recognised.

    The plan may be older than a chunk of an original: a run that was under way could commit until
    it was fenced. So the original must have exactly the proven chunks, and no file committed since
    the plan may begin like a file that the plan took for new. Raises StepResultError, ClusterError.
    """
    if planned.chunks_end is None:
        return []
    of_id, moved = {file.id: file for file in files}, list[Moved]()
    known = states_of(
        taken.chunks, {file for one in planned.recognised for file in (one.id, one.original.id)}
    )
    for one in planned.recognised:
        if any(state.moved for state in known[one.id].values()):
            continue  # an earlier attempt, or another run, has written it
        if known[one.id] or fingerprint(known[one.original.id]) != one.chunks:
            raise _stale(planned.cluster, one.id, one.original.id)
        if one.id in of_id:
            original = known[one.original.id]
            moved += moved_records(context, one, of_id[one.id], original, taken.generation)
    if taken.entries_end > planned.chunks_end:
        recognised = {one.id for one in planned.recognised}
        new = [
            planned
            for file, planned in of_id.items()
            if file not in taken.chunks.digests and file not in recognised
        ]
        _refuse_shipped_since(
            context,
            planned,
            ledger,
            new,
            of_id.keys() | {one.original.id for one in planned.recognised},
        )
    return moved


def _refuse_shipped_since(
    context: RunContext,
    planned: ClusterPlan,
    ledger: LedgerLog,
    new: Sequence[PlannedFile],
    others: Collection[FileId],
) -> None:
    if not new or context.pipeline.source.on_renamed != "recognise":
        return
    shipped, etags = list[tuple[str, FileId]](), dict[FileId, set[str]]()
    for chunk in ledger.decide(ask_committed(planned.chunks_end or 0)).answer:
        file = chunk.key.split.file
        if chunk.value.head and file not in others and chunk.value.run_id != context.folder.run_id:
            shipped.append((chunk.value.head, file))
            if chunk.value.etag:
                etags.setdefault(file, set()).add(chunk.value.etag)
    if not shipped:
        return
    heads = Heads(ledger.pipeline, context.engine.look_at(new))
    for head, file in shipped:
        heads.add(head, file)
    alike = {file: heads.like(file) for file in heads.beginnings}
    there = context.engine.look_for(sorted({one.path for ones in alike.values() for one in ones}))
    for file, ones in alike.items():
        for one in ones:
            if not _lies_there(one, etags.get(one, ()), there[one.path]):
                raise _stale(planned.cluster, file, one)


def _stale(cluster: str, file: FileId, original: FileId) -> StepResultError:
    return StepResultError(
        f"cluster {cluster}: after this run was planned, another run shipped records of "
        f"{original.path}, and {file.path} may be the same file under another name. Nothing "
        "was sent, because the older plan could send records twice. Start the run again from "
        "the plan.",
        code="SHIP-006",
    )


def _look_at_paths(
    known: Chunks,
    files: Sequence[PlannedFile],
    listed: Collection[FileId],
    beginnings: Mapping[FileId, bytes],
    found: Recognition,
) -> None:
    """Judge the files at the path of another file that was found nowhere. A file that begins
    differently, or is empty, is new: a log was rotated more often than it is kept, for example. Any
    other file cannot be decided; it is left out by name, which holds up no other file."""
    recognised, renamed = {one.id for one in found.recognised}, {*found.renamed}
    planned = {file.id: file for file in files}
    for id in sorted(listed):
        file = planned.get(id)
        others = known.files_of_path.get(id.path, set()) - renamed - {id}
        if (
            id in known.digests
            or id in recognised
            or not others
            or (file is None and id.size_bytes)
        ):
            continue
        found.renamed += sorted(others)
        beginning = beginnings.get(id, b"")
        if id in found.left_out or file is None or not (beginning or file.problem):
            continue
        whys = [f"it cannot be read: {file.problem}" if file.problem else ""]
        if not file.problem:
            shipped = states_of(known, others).values()
            whys = [_may_be_rewritten(beginning, states) for states in shipped]
        if why := next(filter(None, whys), ""):
            found.left_out[id] = (
                "another file was shipped from this path and is gone, and whether this is the "
                f"same file cannot be decided: {why}. Nothing of it was sent. If it is another "
                "file, give it another name"
            )
        else:
            found.successors.append(id)


def _may_be_rewritten(beginning: bytes, states: States) -> str:
    """Return why a file with this beginning may hold lines that were shipped from its path; empty
    if it begins differently. ``states``: of the shipped files."""
    heads = {value.head for state in states.values() for _, value in state.parts() if value.head}
    if not heads:
        return "the earlier file was shipped by a version that did not note how files begin"
    lengths = {int(head.partition(":")[0]) for head in heads}
    if len(beginning) < max(lengths):
        return (
            f"the first {max(lengths):,} bytes of the earlier file are known, and this file has "
            f"only {len(beginning):,}"
        )
    if any(head_of(beginning[:length]) in heads for length in lengths):
        return "it begins alike, but lacks records that were shipped"
    return ""


# Candidates


@dataclass
class _Original:
    """A file that was delivered and is gone."""

    id: FileId
    uri: str
    states: States
    place: dict[int, Place] | None = None
    """First byte of each split → where its records are in the candidate. None: this cannot be
    decided."""
    whole: bool = False
    """True if the candidate is compared as one split, since it is cut where this file was not. What
    differs then is another file."""
    why_not: str = ""
    """Reason why its chunks cannot be compared with the candidate; empty if they can."""
    proof: Proof | None = None

    def parts(self) -> Iterator[tuple[int, int, ChunkOfSplit, ChunkValue]]:
        """Yield where each chunk's split begins in the candidate, by how much its ordinals are
        shifted, and the chunk."""
        for start, (begins, shift) in (self.place or {}).items():
            for of, value in self.states[start].parts():
                yield begins, shift, of, value

    @property
    def records(self) -> int:
        return sum(state.lines for state in self.states.values())


class _Candidate(NamedTuple):
    """A file that may have been delivered as another one."""

    file: PlannedFile
    originals: list[_Original]
    """The nearest first."""

    @property
    def has_own_path(self) -> bool:
        return any(one.id.path == self.file.path for one in self.originals)


def _candidates(
    context: RunContext,
    ledger: LedgerLog,
    client: ClusterAdmin,
    heads: Heads,
    new: Mapping[FileId, PlannedFile],
    listed: Collection[FileId],
) -> list[_Candidate]:
    source, apart = context.pipeline.source, _depends_on_path(context)
    alike = dict[FileId, dict[FileId, str]]()
    """New file → files that it may be → the path under which the ledger has each: the source may
    have been moved since."""
    for file in new:
        delivered_from = {heads.now(one): one.path for one in heads.like(file)}
        may_be = [
            one
            for one in delivered_from
            if one not in listed
            and _may_be(source.on_renamed, source.on_replaced, file, one, new[file])
        ]
        nearest = sorted(may_be, key=lambda one: _distance(one, file))
        if nearest:
            paths = {*[*dict.fromkeys(one.path for one in nearest)][:_MOST_PATHS]}
            chosen = (
                nearest[:_MOST_PATHS]
                if apart
                else [one for one in nearest if one.path in paths][:_MOST_ORIGINALS]
            )
            alike[file] = {one: delivered_from[one] for one in chosen}
    if not alike:
        return []
    names = {one: {one, *heads.became(one)} for ones in alike.values() for one in ones}
    at = {name.path for some in names.values() for name in some}
    chunks = judge(client, ledger.look(ask_state(at)).chunks, set()).chunks
    states = states_of(chunks, chunks.digests.keys())
    there = context.engine.look_for(sorted(at.union(*(ones.values() for ones in alike.values()))))
    found = list[_Candidate]()
    for file, ones in alike.items():
        originals = list[_Original]()
        for one, former in ones.items():
            # The file lies at whichever of its names exists: files elsewhere that begin like it are
            # copies.
            if one not in states or any(
                _lies_there(name, chunks.etags.get(name, ()), there[name.path])
                for name in names[one]
            ):
                continue
            original = _Original(one, there[former].uri, states[one])
            if original.records:
                original.place = places(context, one, new[file], states[one])
                if original.place is None:
                    original.whole = True
                    original.place = places(context, one, new[file], states[one], whole=True)
                original.why_not = _why_not(context, original, chunks)
                originals.append(original)
        if originals:
            found.append(_Candidate(new[file], originals))
    return found


def _may_be(
    on_renamed: str, on_replaced: str, file: FileId, one: FileId, planned: PlannedFile
) -> bool:
    """Return True if ``file`` may be ``one`` at all. A plain file that was delivered is never
    longer than the same file now."""
    wanted = (
        on_renamed == "recognise" if one.path != file.path else on_replaced in ("fail", "continue")
    )
    return wanted and (
        planned.format != PLAIN or one.path.endswith(_PACKED) or one.size_bytes <= file.size_bytes
    )


def _distance(one: FileId, file: FileId) -> tuple[bool, bool, int, int, FileId]:
    """Return how far two files differ. A renamed or packed file mostly keeps its time."""
    late = abs(one.modified_ms - file.modified_ms)
    return late > 0, one.path != file.path, abs(one.size_bytes - file.size_bytes), late, one


def _lies_there(one: FileId, etags: Collection[str], there: FoundFile) -> bool:
    """Return True if the file still lies at its path. ETags are compared if there are any, as the
    reader does: a listing may give milliseconds where the answer about one object gives seconds."""
    if there.id is None or there.id.size_bytes != one.size_bytes:
        return False
    return there.etag in etags if there.etag and etags else there.id.modified_ms == one.modified_ms


def _why_not(context: RunContext, original: _Original, chunks: Chunks) -> str:
    digest, spark = context.pipeline.transform_digest(), context.engine.version
    if chunks.digests[original.id] != {digest}:
        return (
            "it was shipped under another transform: `records`, `routes`, `format` or "
            "`split_size` changed since"
        )
    if chunks.sparks.get(original.id, {spark}) != {spark}:
        return "it was shipped with another version of Spark"
    if original.place is None:
        return _CUT_OTHERWISE
    if (
        len(original.place) > 1
        and len(set(original.place.values()) - {(start, 0) for start in original.place}) > 0
    ):
        text = context.pipeline.model_dump_json(include={"records", "routes"}).lower()
        if named := {name for name in _OF_THE_CUT if name in text}:
            return (
                f"records depend on {' and '.join(sorted(named))}, which differ since this file "
                "is cut otherwise"
            )
    return ""


def _depends_on_path(context: RunContext) -> bool:
    """Return False if the records that a line becomes are certainly the same under every path."""
    text = context.pipeline.model_dump_json(
        include={"records", "routes", "gates", "quarantine"}
    ).lower()
    return any(name in text for name in _OF_THE_PATH)


def places(
    context: RunContext, original: FileId, file: PlannedFile, states: States, *, whole: bool = False
) -> dict[int, Place] | None:
    """Return where the records of each split of ``original`` that has chunks are in ``file``. None:
    this cannot be decided. ``whole``: in ``file`` as one split, however it is cut."""
    cut = list(context.split_starts(original))
    now = [0] if whole else list(context.split_starts(file.id))
    if {value.splits for state in states.values() for _, value in state.parts()} != {
        len(cut)
    } or not states.keys() <= set(cut):
        return None
    if len(now) > 1:
        both_plain = (
            file.format == PLAIN and not original.path.endswith(_PACKED) and now[: len(cut)] == cut
        )
        same = cut == now and original.size_bytes == file.size_bytes
        return {start: Place(start, 0) for start in states} if both_plain or same else None
    found, before = dict[int, Place](), 0
    for start in cut:
        if (state := states.get(start)) is None:
            break
        found[start] = Place(now[0], before)
        if state.end is None:
            break
        before += state.end
    return found if found.keys() == states.keys() else None


# The proof


def _prove(context: RunContext, cluster: Cluster, candidates: Sequence[_Candidate]) -> None:
    pairs = [
        (one.file, original)
        for one in candidates
        for original in one.originals
        if not original.why_not
    ]
    if not pairs:
        return
    wanted, apart = list[ToProve](), _depends_on_path(context)
    for file, original in pairs:
        parts = dict[int, list[Part]]()
        for begins, shift, of, value in original.parts():
            parts.setdefault(begins, []).append(_part(of, value, shift))
        read = file.model_copy(update={"uri": original.uri}) if apart else file
        wanted.append(ToProve(read, parts, original.whole))
    context.start_spark()
    with context.phases("recognising files"):
        proofs = context.engine.prove(cluster, schema_ids(cluster, context.pipeline), wanted)
    for (_, original), proof in zip(pairs, proofs, strict=True):
        original.proof = proof


def _part(of: ChunkOfSplit, value: ChunkValue, shift: int) -> Part:
    kind: Literal["shipped", "dropped", "quarantined"] = (
        "quarantined" if value.reasons is not None else "shipped" if of.topic else "dropped"
    )
    runs = covered(of.first, value) if value.records else []
    return Part(tuple(Interval(first + shift, end + shift) for first, end in runs), of.topic, kind)


class _Verdict(NamedTuple):
    same: bool
    doubt: str = ""
    whole: bool = False
    """The file holds no record that the original does not hold, as far as the original was
    delivered."""


def _judge(original: _Original, cut: Sequence[int], *, whole_file: bool) -> _Verdict:
    """Judge a candidate. ``cut``: first byte of each split of the original."""
    proof, counters = original.proof, Counter[int]()
    assert proof is not None
    held = failed = 0
    last_failed_alone = True
    ends = _last_ordinals(original)
    for begins, shift, of, value in original.parts():
        number = counters[begins]
        counters[begins] += 1
        if not value.records:
            continue
        sums = proof.splits[begins]
        if sums.counts[number] == value.records and (
            not of.topic or sums.checksums[number] == value.checksum
        ):
            # A count of dropped lines can contradict, but proves nothing: many files begin with the
            # same number of comments.
            held += bool(of.topic)
        else:
            failed += 1
            last_failed_alone &= value.last + shift == ends.get(begins)
    fits, whole = _lines_fit(original, proof, cut)
    if failed == 0 and fits:
        return _Verdict(False, _CUT_OTHERWISE) if original.whole else _Verdict(True, whole=whole)
    unfinished = not whole_file and last_failed_alone and _ends_without_newline(original)
    if held == 0 and not unfinished:
        return _Verdict(False)
    why = (
        "its last line was not terminated when it was shipped, and continues here"
        if unfinished
        else f"{held} of its {plural(held + failed, 'chunk')} {'is' if held == 1 else 'are'} in "
        "this file, and the others are not"
    )
    return _Verdict(False, why)


def _last_ordinals(original: _Original) -> dict[int, int]:
    found = dict[int, int]()
    for begins, shift, _, value in original.parts():
        found[begins] = max(found.get(begins, 0), value.last + shift)
    return found


def _ends_without_newline(original: _Original) -> bool:
    """Return True if the last line has no end. A line is counted with its end, so the bytes of such
    a file are one more than its size."""
    reads = [state.read for state in original.states.values()]
    return None not in reads and sum(read or 0 for read in reads) == original.id.size_bytes + 1


def _lines_fit(original: _Original, proof: Proof, cut: Sequence[int]) -> tuple[bool, bool]:
    """Return (the original's splits end where they end here, or more follows after the last one;
    nothing follows)."""
    place, last = original.place or {}, max(proof.splits)
    ends = {
        begins: _end_at(original, begins, cut, len(proof.splits)) for begins, _ in place.values()
    }
    of_last = place[cut[-1]][0] if cut[-1] in place else None
    fits = all(
        end is None
        or proof.splits[begins].lines == end
        or (begins == of_last and proof.splits[begins].lines > end)
        for begins, end in ends.items()
    )
    known = len(place) == len(cut) and None not in ends.values()
    return fits, known and of_last == last and proof.splits[last].lines == ends[last]


def _end_at(original: _Original, begins: int, cut: Sequence[int], count: int) -> int | None:
    """Return how many records the original has in the file's split that begins there; None if that
    is not known. ``cut``: first byte of each split of the original; ``count``: number of the file's
    splits."""
    here = [start for start, (where, _) in (original.place or {}).items() if where == begins]
    if not here or (count == 1 and len(here) < len(cut)):
        return None
    ends = [original.states[start].end for start in here]
    return None if None in ends else sum(end or 0 for end in ends)


def _conclude(
    context: RunContext, candidate: _Candidate, found: Recognition, elsewhere: set[FileId]
) -> None:
    """Conclude what a file is. ``elsewhere``: files whose content lies at another path by now. A
    file at their own path that holds just the same is a new one."""
    file, source = candidate.file, context.pipeline.source
    proven: list[tuple[_Original, _Verdict]] = []
    doubts = [(original, original.why_not) for original in candidate.originals if original.why_not]
    for original in candidate.originals:
        if (proof := original.proof) is None:
            continue
        if proof.problem or not all(sums.ended for sums in proof.splits.values()):
            file.problem = proof.problem or "it could not be read to its end"
            file.passing = proof.passing
            return
        verdict = _judge(
            original, context.split_starts(original.id), whole_file=source.format == "whole_file"
        )
        if verdict.same:
            proven.append((original, verdict))
        elif verdict.doubt:
            doubts.append((original, verdict.doubt))
    if proven:
        original, verdict = max(proven, key=lambda each: each[0].records)
        one = _recognised(file, original, verdict)
        if not one.complete and original.records < max(
            (each.records for each, _ in doubts), default=0
        ):
            found.left_out[file.id] = _doubtful(
                original.id, "more of it may have been shipped under another name"
            )
        elif one.grown and one.path != one.original.path and source.on_replaced in ("fail", "skip"):
            found.left_out[file.id] = (
                f"it begins with all that was shipped of {one.original.path} and has more: it "
                "was renamed and has grown. Nothing of it was sent. Set `source.on_replaced: "
                "continue` to ship only the rest"
            )
            elsewhere.add(one.original.id)
        elif one.path == one.original.path and one.complete and one.original.id in elsewhere:
            pass
        elif not one.grown or source.on_replaced != "reship":
            found.recognised.append(one)
            if one.path != one.original.path:
                elsewhere.add(one.original.id)
    elif other_paths := [each for each in doubts if each[0].id.path != file.path]:
        original, why = other_paths[0]
        found.left_out[file.id] = _doubtful(original.id, why)


def _doubtful(original: FileId, why: str) -> str:
    return (
        f"it begins like {original.path}, which was shipped and is gone, and whether it is the "
        f"same file cannot be decided: {why}. Nothing of it was sent. If it is another file, set "
        "`source.on_renamed: ship` and run the window again"
    )


def _recognised(file: PlannedFile, original: _Original, verdict: _Verdict) -> RecognisedFile:
    proof, id = original.proof, original.id
    assert proof is not None
    states = list(original.states.values())
    delivered = standing_as_cut(id, states) != "partial"
    longer = (
        file.format == PLAIN and not id.path.endswith(_PACKED) and file.size_bytes > id.size_bytes
    )
    return RecognisedFile(
        **file.id._asdict(),
        original=KnownFile(**id._asdict()),
        complete=verdict.whole and delivered,
        grown=not verdict.whole and (longer or delivered),
        records=sum(state.records for state in states),
        chunks=fingerprint(original.states),
        lines=[proof.splits[start].lines for start in sorted(proof.splits)],
        read=[proof.splits[start].read for start in sorted(proof.splits)],
    )


def fingerprint(states: States) -> str:
    """Return a hash of all that the ledger has of a file: which chunks, of which generation, with
    which sums."""
    hashed = xxhash.xxh64()
    for start, state in sorted(states.items()):
        for of, value in sorted(state.parts(), key=lambda part: (part.of, part.value.generation)):
            sums = value.generation, value.last, value.end, value.records, value.checksum
            hashed.update(repr((start, *of, *sums)).encode())
    return hashed.hexdigest()


# What the ledger will say


def moved_records(
    context: RunContext,
    one: RecognisedFile,
    file: PlannedFile,
    states: States,
    generation: int,
) -> list[Moved]:
    """Return the records to write about a recognised file: which of its records the original's
    chunks have delivered."""
    original = _Original(one.original.id, "", states)
    original.place = places(context, original.id, file, states)
    starts = list(context.split_starts(one.id))
    common: dict[str, Any] = {
        "path": original.id.path,
        "size_bytes": original.id.size_bytes,
        "modified_ms": original.id.modified_ms,
        "generation": generation,
        "run_id": context.folder.run_id,
        "window": file.late_window or file.tick or str(context.window),
        "splits": len(starts),
        "etag": file.etag or None,
        "end": False,
        "read": None,
        "without": None,
        "parked": None,
        "wire_bytes": None,
    }
    groups = dict[tuple[int, str, str | None, bool], list[_Group]]()
    for begins, shift, of, value in original.parts():
        if value.records:
            runs = [Interval(first + shift, end + shift) for first, end in covered(of.first, value)]
            key = begins, of.topic, value.topic_id, value.reasons is not None
            known = groups.setdefault(key, [])
            if not known or known[-1].runs + len(runs) > MOST_RUNS:
                known.append(_Group())
            known[-1].add(runs, value)
    found: list[Moved] = []
    for (begins, topic, _, _), some in groups.items():
        for group in some:
            ordinals = list(group.ordinals)
            # If more of a file is shipped under this name, the file is known by this name from now
            # on; else by its former one.
            head = None if one.complete else file.head
            own = {"last": ordinals[-1].end, "ordinals": encode_ordinals(ordinals), "head": head}
            value = MovedValue(**{**vars(group.value), **common, **own})
            found.append(Moved(MovedKey(SplitId(one.id, begins), ordinals[0].first, topic), value))
    base = found[0].value
    none_of_these: dict[str, Any] = dict.fromkeys(
        ("partition", "topic_id", "reasons", "swallowed", "filtered")
    )
    for begins, lines, read in zip(starts, one.lines, one.read, strict=True):
        if _end_at(original, begins, context.split_starts(original.id), len(starts)) == lines:
            nothing = replace(
                base,
                last=lines,
                end=True,
                read=read,
                ordinals="",
                records=0,
                bytes=0,
                checksum=0,
                **none_of_these,
            )
            found.append(Moved(MovedKey(SplitId(one.id, begins), lines, ""), nothing))
    return found


@dataclass
class _Group:
    """Chunks that one record stands for."""

    ordinals: IntervalSet = field(default_factory=IntervalSet)
    runs: int = 0
    value: ChunkValue = field(default=None)  # type: ignore[assignment]

    def add(self, runs: Iterable[Interval], value: ChunkValue) -> None:
        for first, end in runs:
            self.ordinals.add(first, end)
            self.runs += 1
        before = self.value
        self.value = (
            value
            if before is None
            else replace(
                value,
                records=before.records + value.records,
                bytes=before.bytes + value.bytes,
                checksum=(before.checksum + value.checksum) % _UINT64,
                reasons=None
                if value.reasons is None
                else dict(Counter(before.reasons) + Counter(value.reasons)),
                swallowed=(before.swallowed or 0) + (value.swallowed or 0) or None,
                filtered=None
                if value.filtered is None
                else dict(Counter(before.filtered) + Counter(value.filtered)),
            )
        )


def _more(found: Sequence[object]) -> str:
    return f" and {len(found) - 1:,} more" if len(found) > 1 else ""


def note_of_successors(found: Sequence[FileId]) -> str:
    """Return the sentence on new files at paths of others that were found nowhere."""
    what, lies = ("1 file is", "lies") if len(found) == 1 else (f"{len(found):,} files are", "lie")
    return (
        f"{what} new, and {lies} where another file was shipped from that is gone: "
        f"{found[0].path}{_more(found)}. A file with another beginning is sent whole "
        "(`source.on_replaced: continue`)."
    )


def note_of(found: Sequence[RecognisedFile]) -> str:
    """Return the sentence on files that were recognised."""
    first = found[0]
    what = "1 file was" if len(found) == 1 else f"{len(found):,} files were"
    return (
        f"{what} recognised as moved: {first.original.path} → {first.path}{_more(found)}. By their "
        f"checksums, {plural(sum(one.records for one in found), 'record')} had been delivered "
        "before, and nothing of that is sent again."
    )
