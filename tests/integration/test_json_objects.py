"""The grammar of JSON objects, as the jar and `shipper new` have it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.cli.sample_file import _object
from tests.samples.json_lines import OBJECTS, OTHERS

from .source_world import spark_session

pytestmark = pytest.mark.spark

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def spark():
    with spark_session("json objects") as found:
        yield found


@pytest.fixture(scope="module")
def fault(spark):
    checked = spark._jvm.shipper.lines.JsonObject()
    return lambda text: checked.call(bytearray(text))


@pytest.mark.long
def test_the_reason_says_what_and_where(fault):
    assert {name: fault(text) for name, text in OBJECTS.items()} == dict.fromkeys(OBJECTS)
    assert {name: fault(text) for name, (text, _) in OTHERS.items()} == {
        name: why for name, (_, why) in OTHERS.items()
    }
    assert fault(b'{"a":[' + b"[" * 1_000_000) == "cut off at byte 1000006"


@pytest.mark.long
def test_new_takes_the_same_lines_for_objects():
    def is_object(text):
        return _object(text.decode(errors="replace").rstrip("\r")) is not None

    assert [name for name, text in OBJECTS.items() if not is_object(text)] == []
    assert [name for name, (text, _) in OTHERS.items() if is_object(text)] == []


@given(value=VALUES, at=st.integers(0, 200), byte=st.sampled_from(b'{}[]",:\\e0.-+u \t'))
@pytest.mark.long
def test_it_agrees_with_python_on_texts_that_are_nearly_json(fault, value, at, byte):
    text = json.dumps({"v": value}).encode()
    at %= len(text) + 1
    for odd in (text, text[:at], text[:at] + bytes([byte]) + text[at:], text[:at] + text[at + 1 :]):
        assert (fault(odd) is None) == (_object(odd.decode()) is not None), odd
