"""Deciding what a run does about each file of its window on one cluster. Pure: facts about the
source, what the ledger says, and the pipeline's policy go in, a decision for each file comes out.

The ship decides, with a deciding read of the ledger after the takeover. The plan asks the same with
a look, for people, and to know whether anything is left. :data:`RULES` is the whole decision, in
order: the first rule that holds counts. docs/understand/files.md is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from shipper.config.units import listed, plural
from shipper.errors import SourceError
from shipper.ledger.fold import Chunks
from shipper.ledger.heads import HEAD_BYTES, length_of
from shipper.ledger.sums import ByteSum
from shipper.report.plan_result import Beginning, PlannedFile
from shipper.types import FileId

OnReplaced = Literal["fail", "skip", "reship", "continue"]
Outcome = Literal["done", "ship", "skip", "leave out", "refuse"]
"""``leave out``: not now, by name, with a warning; nothing else waits for the file. ``refuse``: of
the window's own files, the run stops; a late one is left out."""


class Original(NamedTuple):
    """File that begins like another one, is gone, and is nobody's original yet."""

    file: FileId
    content: ByteSum | None
    """Sum of its content; None: it was not delivered whole, or the ledger has no sum."""


Originals = Mapping[FileId, Sequence[Original]]
"""File that the ledger does not know → files that it may be, the nearest first. Of any other such
file nobody has asked the source."""


@dataclass(frozen=True)
class Policy:
    """Choices of the pipeline and of the run's request."""

    digest: str
    """Digest of the transform."""
    spark: str | None = None
    """Spark's minor version, if it reads records; None: no expression looks at one."""
    on_replaced: OnReplaced = "fail"
    on_renamed: Literal["recognise", "ship"] = "recognise"
    appends: bool = True
    """True if what is added to a file can be read without what was there before."""
    reship_below: int | None = None
    """`--reship`: a file is shipped again unless all that is known of it was shipped by this
    generation or a later one; None: no reship."""
    reshipped: Collection[FileId] = frozenset()
    """Files that were invalidated under the same name before."""
    late: Collection[FileId] = frozenset()
    """Files of earlier windows."""
    routes_to: Callable[[str], bool] = lambda topic: True
    """Function that returns True if the pipeline's routes can lead to a topic."""


class SourceFile(NamedTuple):
    """Facts from the source about a file."""

    id: FileId
    splits: int
    """Into which the pipeline cuts it now."""
    etag: str = ""
    head: str = ""
    beginnings: Sequence[Beginning] = ()
    """Sums of the lengths that originals have."""

    @classmethod
    def of(cls, file: PlannedFile) -> SourceFile:
        return cls(file.id, file.splits, file.etag, file.head, file.beginnings)


class Match(NamedTuple):
    """A file holds the content of an original."""

    original: Original
    beginning: Beginning


class FileDecision(NamedTuple):
    file: FileId
    rule: str
    """Code of the rule."""
    outcome: Outcome
    why: str = ""
    """Reason, of a file that is left out or refused."""
    match: Match | None = None
    """The file is another one, which the ledger is to say."""
    begins: int = 0
    """Bytes of its content that were delivered as another file's."""
    void: frozenset[FileId] = frozenset()
    """Identities whose chunks must be invalidated before the file is shipped."""
    begun: bool = False
    records: int = 0
    """Records of it that are on the cluster."""


@dataclass
class FileCase:
    """One file, with all that its rules ask."""

    file: SourceFile
    policy: Policy
    chunks: Chunks
    originals: Sequence[Original] | None
    """Files that it may be; None: the source has not said yet."""
    match: Match | None
    succeeded: Collection[FileId]
    """Files that another file of this decision is."""
    is_overwritten: bool
    """The file has another ETag than when a chunk of it was shipped: other bytes, of the same size
    and within the same moment."""

    def __post_init__(self) -> None:
        self.id = self.file.id
        self.is_known = self.chunks.knows(self.id) and not self.is_overwritten
        self.standing = self.chunks.standing(self.id) if self.is_known else None

    @property
    def is_older(self) -> bool:
        """Another transform made records of it."""
        return bool(self.chunks.digests.get(self.id, set()) - {self.policy.digest})

    @property
    def is_cut_otherwise(self) -> bool:
        """Splits that have chunks begin where the pipeline does not cut now."""
        cut = {c.splits for s in self.chunks.states(self.id) for c in s.chunks.values()}
        return self.id not in self.chunks.aliases and bool(cut - {self.file.splits})

    @property
    def is_routed_otherwise(self) -> bool:
        """True if records of it are in a topic that its routes no longer allow: they would go to
        quarantine as well."""
        return any(
            of.topic and of.topic not in state.quarantines and not self.policy.routes_to(of.topic)
            for state in self.chunks.states(self.id)
            for of in state.chunks
        )

    @property
    def is_of_other_spark(self) -> bool:
        return bool(
            self.policy.spark and self.chunks.sparks.get(self.id, set()) - {self.policy.spark}
        )

    @property
    def is_asked_again(self) -> bool:
        below = self.policy.reship_below
        if below is None or self.id in self.policy.reshipped:
            return False
        return not self.is_known or self.chunks.oldest(self.id) < below

    @cached_property
    def others(self) -> frozenset[FileId]:
        """Files that were shipped from the same path, and are not known to be elsewhere. An empty
        one leaves nothing behind."""
        return frozenset(
            other
            for other in self.chunks.files_of_path.get(self.id.path, ())
            if (other != self.id or self.is_overwritten)
            and other not in self.chunks.succeeded
            and other not in self.succeeded
            and (other.size_bytes > 0 or self.chunks.records(other) > 0)
        )

    def takes_place(self, policy: OnReplaced) -> bool:
        """True if another file was shipped from its path, and the pipeline has this policy."""
        return bool(self.others) and self.policy.on_replaced == policy

    @property
    def begins(self) -> int:
        """Bytes of its content that were delivered as another file's, or will be."""
        if (alias := self.chunks.aliases.get(self.id)) is not None and self.is_known:
            return ByteSum.parse(alias.sum).length
        return self.match.beginning.length if self.match is not None else 0

    @property
    def records(self) -> int:
        """Records of it that are on the cluster, under whatever name if it is another file."""
        if self.is_known:
            return self.chunks.records(self.id)
        if self.match is None or self.has_grown:
            return 0
        return sum(self.chunks.delivered_as(self.match.original.file).values())

    @property
    def has_grown(self) -> bool:
        return self.match is not None and not self.match.beginning.whole

    def has_grown_here(self, policy: OnReplaced) -> bool:
        """True if it begins with all that was shipped of the file at its path, and the pipeline has
        this policy."""
        match = self.match
        return (
            match is not None
            and self.has_grown
            and match.original.file.path == self.id.path
            and self.policy.on_replaced == policy
        )

    @property
    def is_torn(self) -> bool:
        return self.has_grown and self.match is not None and not self.match.beginning.ends_line

    @property
    def doubtful(self) -> Original | None:
        """A file of another path that it may be, of which not enough is known to say."""
        return next(
            (
                one
                for one in self.originals or ()
                if one.content is None and one.file.path != self.id.path
            ),
            None,
        )

    @property
    def alike(self) -> FileId | None:
        """A file that was shipped from its path and may have begun like it."""
        heads = {other: self.chunks.heads.get(other, "") for other in self.others}
        mine = self.file.head
        return next(
            (
                other
                for other, head in sorted(heads.items())
                if not head or head == mine or length_of(mine) < length_of(head) == HEAD_BYTES
            ),
            None,
        )


def _grown(case: FileCase) -> str:
    assert case.match is not None
    return (
        f"it begins with all that was shipped of {case.match.original.file.path} and has more: it "
        "was renamed and has grown. Nothing of it was sent. Set `source.on_replaced: continue` to "
        "ship only the rest"
    )


def _torn(case: FileCase) -> str:
    assert case.match is not None
    return (
        f"the last line of {case.match.original.file.path} was not terminated when it was shipped, "
        "and continues here. Nothing of it was sent. Re-ship it with --reship: consumers will see "
        "duplicates"
    )


def _doubtful(case: FileCase) -> str:
    original = case.doubtful
    assert original is not None
    return (
        f"it begins like {original.file.path}, which was shipped in part and is gone, and whether "
        "it is the same file cannot be decided. Nothing of it was sent. If it is another file, set "
        "`source.on_renamed: ship` and run again"
    )


def _alike(case: FileCase) -> str:
    return (
        "another file was shipped from this path and is gone, and this one begins alike, or is too "
        "short to tell, but does not hold all that was shipped. Nothing of it was sent. If it is "
        "another file, give it another name"
    )


def _misread(case: FileCase) -> str:
    return (
        f"{misread(case.id, case.chunks)}. Compare the file with its topic, and re-ship it with "
        "--reship"
    )


class Rule(NamedTuple):
    code: str
    when: str
    """Condition in words, for the documentation."""
    then: str
    outcome: Outcome
    holds: Callable[[FileCase], bool]
    why: Callable[[FileCase], str] = lambda case: ""
    """Reason why the file is left out, or refused if it is late."""
    anew: bool = False
    """True if the chunks of the file, and of those at its path, are invalidated."""


#: In the order in which they are asked. Between them they cover every file.
RULES: tuple[Rule, ...] = (
    Rule(
        "reship",
        "`--reship` asks for it, and it was not shipped since",
        "invalidates what the ledger has of it, and ships it whole",
        "ship",
        lambda case: case.is_asked_again,
        anew=True,
    ),
    Rule(
        "misread",
        "the ledger has all of its records, but other bytes were read than it has",
        "stops (SHIP-307)",
        "refuse",
        lambda case: case.standing == "misread",
        _misread,
    ),
    Rule(
        "older",
        "it was delivered whole under another transform",
        "leaves it as it is",
        "done",
        lambda case: case.standing == "complete" and case.is_older,
    ),
    Rule(
        "complete",
        "it was delivered whole",
        "nothing",
        "done",
        lambda case: case.standing == "complete",
    ),
    Rule(
        "changed",
        "it was delivered in part, under another transform, cut otherwise, or to a topic that its "
        "routes no longer allow",
        "stops (SHIP-309)",
        "refuse",
        lambda case: (
            case.standing == "partial"
            and (case.is_older or case.is_cut_otherwise or case.is_routed_otherwise)
        ),
        lambda case: (
            "it was shipped in part under another transform, and cannot be finished under this one"
        ),
    ),
    Rule(
        "other-spark",
        "it was delivered in part, by expressions of another version of Spark",
        "stops (SHIP-310)",
        "refuse",
        lambda case: case.standing == "partial" and case.is_of_other_spark,
        lambda case: (
            "it was shipped in part under another version of Spark, and cannot be finished under "
            "this one"
        ),
    ),
    Rule(
        "rest",
        "it was delivered in part",
        "ships the rest",
        "ship",
        lambda case: case.standing == "partial",
    ),
    Rule(
        "same",
        "it holds the content of a file that was delivered whole and is gone, and nothing else",
        "notes in the ledger that it is that file",
        "done",
        lambda case: case.match is not None and not case.has_grown,
    ),
    Rule(
        "torn",
        "it begins with that content, whose last line was not terminated and goes on",
        "leaves it out",
        "leave out",
        lambda case: case.is_torn and case.policy.on_replaced == "continue",
        _torn,
    ),
    Rule(
        "grown",
        "it begins with that content and holds more, with `on_replaced: continue`",
        "ships what follows",
        "ship",
        lambda case: case.has_grown and case.policy.on_replaced == "continue",
    ),
    Rule(
        "grown-fail",
        "the same, of the file at its own path, with `on_replaced: fail`",
        "stops (SHIP-306)",
        "refuse",
        lambda case: case.has_grown_here("fail"),
        lambda case: (
            "it has grown since it was shipped, and `source.on_replaced: continue` ships the rest"
        ),
    ),
    Rule(
        "grown-skip",
        "the same with `on_replaced: skip`",
        "leaves it alone",
        "skip",
        lambda case: case.has_grown_here("skip"),
    ),
    Rule(
        "grown-reship",
        "the same with `on_replaced: reship`",
        "invalidates what was shipped, and ships it whole",
        "ship",
        lambda case: case.has_grown_here("reship"),
        anew=True,
    ),
    Rule(
        "grown-elsewhere",
        "it begins with the content of a file at another path and holds more, without "
        "`on_replaced: continue`",
        "leaves it out",
        "leave out",
        lambda case: case.has_grown,
        _grown,
    ),
    Rule(
        "begun-elsewhere",
        "it begins like a file at another path that was delivered in part and is gone",
        "leaves it out",
        "leave out",
        lambda case: case.doubtful is not None,
        _doubtful,
    ),
    Rule(
        "not-looked",
        "another file was shipped from its path, and nobody has looked into it yet",
        "looks into it (the plan alone)",
        "ship",
        lambda case: bool(case.others) and case.originals is None,
    ),
    Rule(
        "replaced-fail",
        "another file was shipped from its path and was found nowhere, with `on_replaced: fail`",
        "stops (SHIP-305)",
        "refuse",
        lambda case: case.takes_place("fail"),
        lambda case: (
            "it was replaced after it was shipped: size, modification time or ETag differ from "
            "what the ledger holds"
        ),
    ),
    Rule(
        "replaced-skip",
        "the same with `on_replaced: skip`",
        "leaves it alone",
        "skip",
        lambda case: case.takes_place("skip"),
    ),
    Rule(
        "replaced-reship",
        "the same with `on_replaced: reship`",
        "invalidates what was shipped, and ships it whole",
        "ship",
        lambda case: case.takes_place("reship"),
        anew=True,
    ),
    Rule(
        "empty",
        "it is empty",
        "nothing",
        "done",
        lambda case: case.id.size_bytes == 0,
    ),
    Rule(
        "alike",
        "another file was shipped from its path and was found nowhere, and it may have begun "
        "alike, with `on_replaced: continue`",
        "leaves it out",
        "leave out",
        lambda case: bool(case.others) and case.alike is not None,
        _alike,
    ),
    Rule(
        "successor",
        "another file was shipped from its path and was found nowhere, and it begins otherwise, "
        "with `on_replaced: continue`",
        "ships it, with a note",
        "ship",
        lambda case: bool(case.others),
    ),
    Rule(
        "new",
        "anything else",
        "ships it",
        "ship",
        lambda case: True,
    ),
)


@dataclass
class Decisions:
    """Decisions on all files of a window, in the plan's order."""

    each: list[FileDecision] = field(default_factory=list)
    late: Collection[FileId] = frozenset()

    def of(self, *outcomes: Outcome) -> list[FileId]:
        return [one.file for one in self.each if one.outcome in outcomes]

    def by(self, *rules: str) -> list[FileDecision]:
        return [one for one in self.each if one.rule in rules]

    @property
    def complete(self) -> list[FileId]:
        return self.of("done")

    @property
    def left(self) -> list[FileId]:
        """Files that the cluster lacks, or lacks in part."""
        return self.of("ship")

    @property
    def partial(self) -> list[FileId]:
        """Files of ``left`` that were begun."""
        return [one.file for one in self.each if one.outcome == "ship" and one.begun]

    @property
    def matched(self) -> list[FileDecision]:
        """Files that are others, which the ledger is to say."""
        return [one for one in self.each if one.match and one.rule in ("same", "grown")]

    @property
    def void(self) -> list[FileId]:
        """Identities whose chunks must be invalidated before shipping."""
        return [file for one in self.each if one.outcome == "ship" for file in sorted(one.void)]

    @property
    def left_out(self) -> dict[FileId, str]:
        """File → why it is left out for now, by name."""
        return {one.file: one.why for one in self.each if one.outcome == "leave out"}

    @property
    def refused(self) -> dict[FileId, str]:
        """Late file that cannot be shipped → why."""
        return {
            one.file: one.why
            for one in self.each
            if one.outcome == "refuse" and one.file in self.late
        }

    @property
    def records(self) -> dict[FileId, int]:
        """File that is complete or begun → records on the cluster."""
        return {
            one.file: one.records
            for one in self.each
            if one.outcome == "done" or (one.outcome == "ship" and one.begun)
        }

    def without(self, files: Collection[FileId]) -> Decisions:
        return Decisions([one for one in self.each if one.file not in files], self.late)

    def check(self, chunks: Chunks, spark: str | None) -> None:
        """Raise SourceError for the first of the window's own files that is refused. Then nothing
        may be sent."""
        own: dict[str, list[FileId]] = {}
        for one in self.each:
            if one.outcome == "refuse" and one.file not in self.late:
                own.setdefault(one.rule, []).append(one.file)
        _raise_first(own, chunks, spark)


def decide(
    files: Sequence[SourceFile], chunks: Chunks, originals: Originals | None, policy: Policy
) -> Decisions:
    """Decide about each file. ``originals``: None if nobody has asked the source yet."""
    overwritten = chunks.overwritten(files)
    matches = _matches(files, originals or {}, policy)
    succeeded = {match.original.file for match in matches.values()}
    found = Decisions(late=policy.late)
    for file in files:
        case = FileCase(
            file,
            policy,
            chunks,
            # An empty file has nothing to look into.
            None
            if originals is None
            else originals.get(file.id, None if file.id.size_bytes else ()),
            matches.get(file.id),
            succeeded,
            file.id in overwritten,
        )
        rule = next(rule for rule in RULES if rule.holds(case))
        known = chunks.files_of_path.get(file.id.path, set()) if rule.anew else ()
        # Other bytes of an object that was overwritten have the same chunks' keys.
        is_anew = rule.anew or (rule.outcome == "ship" and file.id in overwritten)
        found.each.append(
            FileDecision(
                file.id,
                rule.code,
                rule.outcome,
                rule.why(case),
                case.match,
                0 if rule.anew else case.begins,
                frozenset({*known, file.id}) if is_anew else frozenset(),
                case.is_known,
                case.records if rule.outcome in ("done", "ship") else 0,
            )
        )
    return found


#: What rotation puts behind a name: a number or a date, and what packs it.
_ROTATED = re.compile(r"(.+?)(?:[-._]\d[\d._T-]*|\.(?:gz|bz2|zst|lz4|snappy|deflate))")


def rotated_from(path: str) -> list[str]:
    """Return the paths from which rotation may have moved a file: of ``app.log.2.gz``,
    ``app.log.2`` and ``app.log``."""
    found = list[str]()
    folder, _, name = path.rpartition("/")
    while rotated := _ROTATED.fullmatch(name):
        name = rotated[1]
        found.append(f"{folder}/{name}")
    return found


Distance = tuple[bool, bool, int, int, FileId]


def distance(one: FileId, file: FileId) -> Distance:
    """Return how far two files differ. A renamed or packed file mostly keeps its time."""
    late = abs(one.modified_ms - file.modified_ms)
    return late > 0, one.path != file.path, abs(one.size_bytes - file.size_bytes), late, one


def _matches(
    files: Iterable[SourceFile], originals: Originals, policy: Policy
) -> dict[FileId, Match]:
    """Give each original to one file that holds its content: to the one at its own path, else to
    the nearest. Another one with that content is a copy, and is shipped. A longer file at its own
    path that may begin like it by chance comes behind one that has its content and its time: that
    was renamed, and the other one began anew."""
    pairs = list[tuple[tuple[bool, bool, bool, Distance], FileId, Match]]()
    for file, _, _, _, beginnings in files if originals else ():
        sums = {one.sum: one for one in beginnings}
        for original in originals.get(file, ()):
            content = original.content
            if content is None or (beginning := sums.get(str(content))) is None:
                continue
            elsewhere = original.file.path != file.path
            if not beginning.whole and (
                not policy.appends or (elsewhere and not _proves(content, original.file, file))
            ):
                continue
            is_renamed = beginning.whole and file.modified_ms == original.file.modified_ms
            by_chance = content.length < HEAD_BYTES and not is_renamed
            away = distance(original.file, file)
            order = by_chance, elsewhere, not beginning.whole, away
            pairs.append((order, file, Match(original, beginning)))
    found, given = dict[FileId, Match](), set[FileId]()
    for _, file, match in sorted(pairs, key=lambda pair: pair[:2]):
        if file not in found and match.original.file not in given:
            found[file] = match
            given.add(match.original.file)
    return found


def _proves(content: ByteSum, original: FileId, file: FileId) -> bool:
    """Return False if ``file`` may begin like ``original`` by chance: a header or a banner."""
    return content.length >= HEAD_BYTES or original.path in rotated_from(file.path)


def _raise_first(own: Mapping[str, Sequence[FileId]], chunks: Chunks, spark: str | None) -> None:
    if wrong := own.get("misread"):
        raise SourceError(
            f"{_some(wrong)} shipped, but other bytes were read than the source has: "
            f"{misread(wrong[0], chunks)}. Lines may be missing or wrong in the topic. Compare "
            "the file with the topic, and report this as a bug. Then re-ship the file with "
            "`--reship`: consumers will see duplicates.",
            code="SHIP-307",
        )
    if changed := own.get("changed"):
        raise SourceError(
            f"{_some(changed)} shipped in part under another transform: `format`, "
            "`split_size`, `records`, `routes` or the time in `path` changed since. The ledger "
            "cannot tell which records of the new transform are delivered, so nothing was sent. "
            "Restore the earlier transform to finish the files, or re-ship them with `--reship`: "
            "consumers will see duplicates.",
            code="SHIP-309",
        )
    if other_spark := own.get("other-spark"):
        versions = sorted(set().union(*(chunks.sparks[file] for file in other_spark)) - {spark})
        raise SourceError(
            f"{_some(other_spark)} shipped in part with Spark {' and '.join(versions)}, and "
            f"this is Spark {spark}, which may read other records from the same lines. Nothing "
            "was sent. Finish the files with the earlier Spark (`runner.python`), or re-ship "
            "them with `--reship`: consumers will see duplicates.",
            code="SHIP-310",
        )
    if grown := own.get("grown-fail"):
        raise SourceError(
            f"{_some(grown)} shipped and has grown since. It still begins with the bytes that "
            "were shipped. Nothing was sent. Set `source.on_replaced: continue` to ship only "
            "the rest.",
            code="SHIP-306",
        )
    if replaced := own.get("replaced-fail"):
        raise SourceError(
            f"{_some(replaced)} replaced after being shipped: size, modification time or ETag "
            "differ from the ledger. Nothing was sent. Find out who rewrites finished files. "
            "Or set `source.on_replaced`: `continue` ships what was added, and a file with "
            "another beginning; `skip` leaves the file alone; `reship` ships the whole file.",
            code="SHIP-305",
        )


def misread(file: FileId, chunks: Chunks) -> str:
    """Return how the bytes that the ledger accounts for differ from the file's, in words."""
    read = sum(state.read or 0 for state in chunks.states(file))
    return (
        f"run {chunks.run_of(file)} read {read:,} bytes of it, and its size is {file.size_bytes:,}"
    )


def _some(files: Sequence[FileId]) -> str:
    first = files[0].path
    return f"{first} was" if len(files) == 1 else f"{first} and {len(files) - 1} more files were"


# Notes for people


def shipped_under_another(count: int) -> str:
    """Return the note on complete files of another transform."""
    were, count_as = ("was", "counts") if count == 1 else ("were", "count")
    return (
        f"{plural(count, 'file')} {were} shipped completely before `records`, `routes`, `format` "
        f"or `split_size` were changed, and {count_as} as done: what was sent stays as it is. "
        "`--reship` sends them again, by the present configuration."
    )


def note_of_matches(found: Sequence[FileDecision]) -> str:
    """Return the sentence on files that are others. ``found``: at least one."""
    first = found[0]
    assert first.match is not None
    what = "1 file was" if len(found) == 1 else f"{len(found):,} files were"
    return (
        f"{what} recognised by content: {first.match.original.file.path} → "
        f"{listed([one.file.path for one in found], 1)}. What had been delivered of that content "
        "is not sent again."
    )


def note_of_successors(found: Sequence[FileDecision]) -> str:
    """Return the sentence on new files at paths of others that were found nowhere."""
    what, lies = ("1 file is", "lies") if len(found) == 1 else (f"{len(found):,} files are", "lie")
    return (
        f"{what} new, and {lies} where another file was shipped from that is gone: "
        f"{listed([one.file.path for one in found], 1)}. A file with another beginning is sent "
        "whole (`source.on_replaced: continue`)."
    )


_INTRODUCTION = """
# What a run does about a file

`python -m shipper.driver.decide` makes this page from the table in `shipper/driver/decide.py`.

For each file and each cluster, the first row that holds decides. The ship asks, after it has fenced
every earlier run and read the ledger for a decision. The plan asks the same of what it could see,
to show it. A row that *stops* concerns the window's own files: nothing is sent. A late file is left
out instead, and holds up nothing. What *leaves it out* warns by name.
"""


def decisions_page() -> str:
    """Return the page docs/understand/files.md, in Markdown."""
    rows = [f"| `{rule.code}` | {rule.when} | {rule.then} |" for rule in RULES]
    return "\n".join(
        [_INTRODUCTION.strip(), "", "| Rule | The file | The run |", "|---|---|---|", *rows, ""]
    )


if __name__ == "__main__":
    print(decisions_page(), end="")
