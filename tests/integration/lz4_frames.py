"""lz4 frames by an encoder of our own, which chooses what a block refers to by chance: as far back
and as overlapping as the format allows."""

import random
import shutil
import subprocess
from collections.abc import Iterator

import pyarrow as pa
import xxhash

_BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_FARTHEST = 65_535
_MOST_LITERALS, _LAST_LITERALS = 1_000, 12


def linked_frame(
    rng: random.Random, blocks: int, *, kind: int = 4, sums: bool = True
) -> tuple[bytes, bytes]:
    """A frame, and what it unpacks to. ``kind``: of the block size; ``sums``: with all checksums
    and the size."""
    content, body = bytearray(), b""
    for number in range(blocks):
        begin, limit = len(content), rng.choice((1, 300, _BLOCK_SIZES[kind]))
        if number % 5 == 4:
            content += rng.randbytes(min(limit, 5_000))
            block, flag = bytes(content[begin:]), 1 << 31
        else:
            block, flag = b"".join(_sequences(rng, content, begin + limit)), 0
        body += (len(block) | flag).to_bytes(4, "little") + block + (_sum(block) if sums else b"")
    head = bytes([0x40 | (0x1C if sums else 0), kind << 4]) + (
        len(content).to_bytes(8, "little") if sums else b""
    )
    check = bytes([xxhash.xxh32_intdigest(head) >> 8 & 0xFF])
    end = bytes(4) + (_sum(bytes(content)) if sums else b"")
    return b"\x04\x22\x4d\x18" + head + check + body + end, bytes(content)


def _sequences(rng, content, limit):
    """Of one block, which ends at ``limit`` of the content; they are added to it. Its end is
    literals, as the format wants it."""
    while limit - len(content) > _MOST_LITERALS + 4 + _LAST_LITERALS:
        literals = rng.randbytes(
            rng.choice((0, 1, 14, 15, 16, 270, 271, _MOST_LITERALS)) or not content
        )
        content += literals
        copied = min(
            limit - len(content) - _LAST_LITERALS,
            rng.choice((4, 5, 18, 19, 20, 274, 5_000, 60_000)),
        )
        yield _token(len(literals), copied - 4) + literals
        back = rng.randint(1, min(len(content), rng.choice((1, 3, 100, _FARTHEST))))
        yield back.to_bytes(2, "little") + _more(copied - 4)
        for _ in range(copied):
            content.append(content[-back])
    literals = rng.randbytes(limit - len(content))
    content += literals
    yield _token(len(literals), 0) + literals


def _token(literals, copied):
    return bytes([min(literals, 15) << 4 | min(copied, 15)]) + _more(literals)


def _more(count):
    return b"" if count < 15 else b"\xff" * ((count - 15) // 255) + bytes([(count - 15) % 255])


def _sum(content):
    return int(xxhash.xxh32_intdigest(content)).to_bytes(4, "little")


def of_others(content: bytes) -> Iterator[bytes]:
    """By Arrow, whose blocks are linked as Python's `lz4.frame` has them, and by the tool, where it
    is."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(content)
    yield bytes(sink.getvalue())
    for options in ("-BD", "-BD -B4 -BX --content-size", "-B4D -9 --no-frame-crc", "-B5"):
        if shutil.which("lz4"):
            yield subprocess.run(
                ["lz4", "-qc", *options.split()], input=content, capture_output=True, check=True
            ).stdout
