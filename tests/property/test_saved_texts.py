"""What `preview --save-test` writes as YAML is read as the same text."""

from hypothesis import example, given
from hypothesis import strategies as st

from shipper.cli.save_test import yaml_text
from shipper.config.yaml_file import parse_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=5))
@example("it's: 'so' # no", [" a", "b"])
@example("Null", ["\tat x", "b"])
@example("- a", ["# a", "--- b", "..."])
@example('\\xff " \x85\u2028\ufeff\x1b[31m\U0001f600', ["a", " ", "b"])
def test_texts_and_lines_are_read_as_they_were(text, lines):
    block = "".join(f"{line}\n" for line in lines)
    document = {"a": {f"k{text}": text, "lines": block, "list": [text]}}
    file = parse_yaml(yaml_text(document))
    assert file.faults == []
    assert file.data == document
