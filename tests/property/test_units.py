"""Durations and sizes: what is written is what is read, exactly. And no text makes loading
raise."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.config import explain as types
from shipper.config.cluster import Cluster
from shipper.config.load import load_all
from shipper.config.pipeline import Pipeline
from shipper.config.units import (
    DURATION,
    DURATION_PATTERN,
    RATE,
    SIZE,
    SIZE_PATTERN,
    format_bytes,
    format_duration,
    parse_duration,
    parse_rate,
    parse_size,
    write_duration,
    write_size,
)

SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}


@given(
    st.lists(
        st.tuples(st.integers(0, 1000), st.sampled_from(list(SECONDS))), min_size=1, max_size=5
    )
)
def test_a_duration_is_the_sum_of_its_parts(parts):
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert parse_duration(text) == pytest.approx(
        sum(number * SECONDS[unit] for number, unit in parts)
    )


@given(st.integers(0, 10**5), st.sampled_from(list(BYTES)), st.sampled_from(["", " "]))
def test_a_size_is_its_number_times_its_unit(number, unit, space):
    assert parse_size(f"{number}{space}{unit}") == number * BYTES[unit]


@given(st.text())
def test_no_text_makes_the_parsers_fail_in_another_way(text):
    for parse, pattern in ((parse_duration, DURATION_PATTERN), (parse_size, SIZE_PATTERN)):
        try:
            parsed = parse(text)
        except ValueError:
            continue
        assert parsed >= 0
        assert re.fullmatch(pattern, text)


@pytest.mark.parametrize(
    "text",
    [
        "10",
        "",
        " 10m",
        "10m ",
        "10m\n",
        "-5m",
        "1.m",
        ".5h",
        "5 m",
        "10M",
        "1h 30m",
        "１０m",
        10,
        1.5,
        None,
        True,
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="a duration has a unit"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text",
    ["10", "", "10 m", "10Mb", "10mb", "10MB\n", "-5B", "5  MB", "1e3B", "１０MB", 10, None, True],
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="a size has a unit"):
        parse_size(text)


def test_numbers_without_end_are_refused():
    for parse, text in ((parse_duration, "9" * 400 + "d"), (parse_size, "9" * 400 + "GB")):
        with pytest.raises(ValueError, match="the l"):
            parse(text)
    with pytest.raises(ValueError, match="whole number of bytes"):
        parse_size("1.5B")
    assert parse_size("1.5kB") == 1500


@given(st.integers(0, 10**6))
def test_whole_seconds_are_formatted_exactly(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(0, 10**15))
def test_formatted_sizes_are_right_to_a_tenth_of_their_unit(count):
    text = format_bytes(count)
    assert parse_size(text) == pytest.approx(count, rel=0.05)
    if count < 1000:
        assert parse_size(text) == count


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (600.0, "10m"),
        (5400.0, "1h30m"),
        (0.25, "250ms"),
        (0, "0s"),
        (86_400.0, "1d"),
        (90_061.5, "1d1h1m1s500ms"),
    ],
)
def test_durations_are_written_as_a_user_would(value, text):
    assert write_duration(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8_000_000, "8MB"),
        (32 * 2**20, "32MiB"),
        (1000, "1kB"),
        (1024, "1KiB"),
        (1023, "1023B"),
        (0, "0B"),
    ],
)
def test_sizes_are_written_as_a_user_would(value, text):
    assert write_size(value) == text


def test_rounding_never_shows_a_thousand_of_a_unit():
    assert format_bytes(999_960) == "1.0 MB"
    assert format_duration(59.96) == "1m"


UNITS = {DURATION: parse_duration, SIZE: parse_size, RATE: parse_rate}


@given(st.sampled_from(list(UNITS)), st.data())
def test_what_the_schema_takes_the_loader_takes_but_for_its_amount(unit, data):
    text = data.draw(
        st.from_regex(unit.pattern, fullmatch=True).filter(lambda text: len(text) < 60)
    )
    why = ""
    try:
        UNITS[unit](text)
    except ValueError as error:
        why = str(error)
    assert not why or re.search("the longest|the largest|whole number of bytes", why), text


@given(st.sampled_from(list(UNITS)), st.text("0123456789.kMGTiBsmhd/ ", max_size=12))
def test_what_the_loader_takes_the_schema_takes(unit, text):
    try:
        UNITS[unit](text)
    except ValueError:
        return
    assert re.search(unit.pattern, text)


@given(st.sampled_from(list(UNITS)), st.integers(0, 10**12))
def test_what_is_written_satisfies_the_schema_and_comes_back(unit, value):
    value = value if unit is not DURATION else value % (36_500 * 86_400_000) / 1000
    assert re.fullmatch(unit.pattern, unit.write(value))
    assert UNITS[unit](unit.write(value)) == value


def fields_with_units(model):
    for key, field in types.yaml_keys(model).items():
        name = next(name for name, found in model.model_fields.items() if found is field)
        if "_seconds" in name or "_bytes" in name or "bandwidth" in name or "rate_limit" in name:
            yield key, types.unit_of(field), name
        below = types.item(types.bare(field.annotation)) or field.annotation
        for section in [types.bare(below), *types.variants(below).values()]:
            if types.is_model(section):
                yield from fields_with_units(section)


def test_every_field_with_a_unit_in_its_name_has_it_in_the_schema():
    found = {
        name: unit for model in (Pipeline, Cluster) for _, unit, name in fields_with_units(model)
    }
    assert len(found) > 10
    assert [name for name, unit in found.items() if unit is None] == []
    assert found["rate_limit"] is found["bandwidth"] is RATE


EXAMPLE = (
    Path(__file__).resolve().parents[2] / "config" / "pipelines" / "web_access.yaml"
).read_text()


@given(
    st.integers(0, len(EXAMPLE)),
    st.integers(0, 20),
    st.text("{}[]:,-#&*!|>'\"%@`\n\t a${}~?\0é", max_size=4),
)
def test_no_text_makes_loading_raise(start, cut, inserted):
    with TemporaryDirectory() as folder:
        config = Path(folder)
        (config / "pipelines").mkdir()
        (config / "pipelines" / "web_access.yaml").write_text(
            EXAMPLE[:start] + inserted + EXAMPLE[start + cut :]
        )
        (config / "clusters").mkdir()
        (config / "clusters" / "local.yaml").write_text(
            "cluster: local\nbootstrap: 127.0.0.1:9092\n"
        )
        loaded = load_all(config)
    assert ("web_access" in loaded.pipelines) != ("web_access" in loaded.broken)
    assert bool(loaded.faults) == bool(loaded.broken)
