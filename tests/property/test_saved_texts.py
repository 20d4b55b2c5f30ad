"""What `preview --save-test` writes as YAML is read as the same text."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from shipper.cli.save_test import yaml_block, yaml_text
from shipper.config.yaml_file import parse_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


def read(written: str) -> object:
    file = parse_yaml(f"a:\n  b: {written}\n  c: 1\n")
    assert file.faults == []
    return file.data["a"]["b"]


@given(TEXTS)
@example("it's: 'so' # no")
@example("true")
@example("Null")
@example("a: b")
@example("- a")
@example("12")
@example('\\xff " \x85\u2028\ufeff\x1b[31m\U0001f600')
def test_a_text_is_read_as_it_was(text: str) -> None:
    assert read(yaml_text(text)) == text


@given(st.lists(TEXTS | st.just(""), min_size=1, max_size=5))
@example(["a", "", "b"])
@example(["a", " ", "b"])
@example(["a", ""])
@example([" a", "b"])
@example(["\tat x", "b"])
@example(["a\r", "b\r"])
@example(["# a", "--- b", "..."])
@example(["a  ", "b\t"])
def test_lines_are_read_as_they_were(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    assert read(yaml_block(text, 4)) == text
