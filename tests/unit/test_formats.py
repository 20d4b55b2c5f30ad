from pathlib import Path

import pytest

from shipper.driver.recognition import HEAD_BYTES, recognise

FILES = Path(__file__).parents[1] / "data" / "formats"


def head(name):
    return (FILES / name).read_bytes()[:HEAD_BYTES]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "a.log.gz",
            b"2026-11-01 plain text\n",
            "its name says gzip, and it does not begin as a file of gzip does",
        ),
        ("a.log.gz", b"\0" * 16, "does not begin as a file of gzip"),
        ("a.log.GZ", b"plain", "does not begin as"),
        (
            "a.log.snappy",
            b"\0\0\1\0\0\0\0\x80abc",
            "its name says snappy, and it does not begin as a file of snappy does",
        ),
        ("a.log.deflate", b"\x78\x9c", "its name says deflate"),
        ("a.log.zip", b"PK\x03\x04", "it is a file of zip"),
    ],
)
def test_what_the_bytes_do_not_make_certain_is_refused_with_the_reason(name, content, says):
    assert says in recognise(name, content).problem


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"one\n",
        b"BZh9 is a log line\n",
        b"\xef\xbb\xbfa\n",
        b"\x1f",
        b"PK\n",
        b"P*M\n",
        b"\xff\x06\x00",
    ],
)
def test_text_is_text_whatever_it_resembles(content):
    found = recognise("a.log", content)
    assert (found.format, found.problem) == ("plain", "")
