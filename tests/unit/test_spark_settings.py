"""Spark settings: what may not be set, and what is part of the transform."""

import pytest
from pydantic import ValidationError

from shipper.config.properties import SQL_DEFAULTS
from tests.samples.config import pipeline_of


def pipeline(conf=None):
    return pipeline_of(runner={"conf": conf or {}})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.caseSensitive", "true"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY"),
        ("spark.sql.parser.escapedStringLiterals", "true"),
        ("spark.sql.legacy.charVarcharAsString", "true"),
        ("spark.sql.some.setting.of.tomorrow", "1"),
    ],
)
def test_a_setting_that_may_change_what_a_line_becomes_is_part_of_the_transform(key, value):
    assert pipeline({key: value}).transform_digest() != pipeline().transform_digest()


@pytest.mark.parametrize(
    ("key", "value"), [*SQL_DEFAULTS.items(), ("spark.sql.ansi.enabled", "TRUE")]
)
def test_a_default_that_is_written_out_changes_nothing(key, value):
    assert pipeline({key: value}).transform_digest() == pipeline().transform_digest()


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (
            "spark.hadoop.mapreduce.input.linerecordreader.line.maxlength",
            "what it leaves out is counted by nobody",
        ),
        (
            "spark.hadoop.mapred.linerecordreader.maxlength",
            "what it leaves out is counted by nobody",
        ),
        (
            "spark.hadoop.mapreduce.input.pathFilter.class",
            "what it leaves out is counted by nobody",
        ),
        ("spark.hadoop.io.compression.codecs", "which files are unpacked"),
        ("spark.sql.variable.substitute", "passwords included"),
        ("spark.sql.files.ignoreCorruptFiles", "shipped in part"),
        ("speculation", "begin with 'spark.'"),
    ],
)
def test_what_drops_lines_or_opens_the_environment_is_refused(key, why):
    with pytest.raises(ValidationError, match=why):
        pipeline({key: "1"})
