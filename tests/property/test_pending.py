"""A plan sorts files twice: before and after it knows which were renamed. The second time it looks
only at what may have changed."""

from dataclasses import fields

from hypothesis import assume, event, given
from hypothesis import strategies as st

from shipper.driver.pending import Pending, pending
from shipper.errors import DigestChanged, SourceError
from shipper.ledger.fold import Chunks
from shipper.ledger.records import ChunkKey, ChunkValue
from shipper.types import FileId, SplitId

PATHS = ["a", "b", "c", "d"]


@st.composite
def shipped(draw):
    """Files that were shipped, whole or in part, of which several may have had one path."""
    chunks = Chunks("web")
    for path in draw(st.lists(st.sampled_from(PATHS), max_size=6)):
        file = FileId(path, draw(st.sampled_from([0, 10, 20])), draw(st.integers(1, 2)))
        lines, whole = file.size_bytes // 10, draw(st.booleans())
        value = ChunkValue(
            last=lines,
            end=whole,
            records=lines,
            bytes=lines * 9,
            checksum=1,
            digest=draw(st.sampled_from(["d1", "d2"])),
            generation=1,
            run_id="r",
            window="w",
            splits=1,
            etag=draw(st.sampled_from([None, "one", "two"])),
            read=file.size_bytes,
        )
        chunks.add(ChunkKey(SplitId(file, 0), 0, "t"), value)
    return chunks


def listed(draw):
    ids = [
        FileId(path, draw(st.sampled_from([0, 10, 20])), draw(st.integers(1, 2))) for path in PATHS
    ]
    return {file: [0] if file.size_bytes else [] for file in ids}


def as_sets(found):
    """The contested are told by the first sorting alone."""
    one = {
        each.name: getattr(found, each.name) for each in fields(Pending) if each.name != "contested"
    }
    return {name: set(value) if isinstance(value, list) else value for name, value in one.items()}


def sort(files, chunks, **settings):
    try:
        return pending(files, chunks, digest="d1", reship=False, **settings)
    except (SourceError, DigestChanged) as error:
        return type(error), error.message


@given(
    data=st.data(), chunks=shipped(), policy=st.sampled_from(["fail", "skip", "reship", "continue"])
)
def test_sorting_again_what_may_have_changed_is_sorting_all_anew(data, chunks, policy):
    files = listed(data.draw)
    etags = {file: etag for file in files if (etag := data.draw(st.sampled_from(["", "one"])))}
    late = {file for file in files if data.draw(st.booleans())}
    settings = {"etags": etags, "late": late}
    first = sort(files, chunks, on_replaced=None, **settings)
    assume(isinstance(first, Pending))

    known = sorted(chunks.digests)
    renamed = {file for file in known if data.draw(st.booleans())}
    grown = {file for file in first.left if data.draw(st.booleans())}
    later = {"on_replaced": policy, "renamed": renamed, "grown": grown, **settings}
    undecided = {*first.left, *first.contested}
    again = sort(
        {file: starts for file, starts in files.items() if file in undecided}, chunks, **later
    )
    whole = sort(files, chunks, **later)
    event("refused" if not isinstance(whole, Pending) else "sorted")
    if isinstance(whole, Pending):
        merged = first.sorted_again(again, undecided)
        assert as_sets(merged) == as_sets(whole)
        assert merged.left == whole.left
    else:
        assert again == whole
