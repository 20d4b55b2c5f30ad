"""The published schema of report.json: documented, and true of every report."""

import json

import pytest

from shipper.report.report_schema import report_schema
from tests.samples import reports as samples

#: `large` is more of the same.
ALL = [
    pytest.param(sample, id=sample.__name__)
    for sample in samples.SAMPLES
    if sample is not samples.large
]


@pytest.fixture(scope="module")
def validator():
    """jsonschema comes with Great Expectations and Airflow; the core does without."""
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(report_schema())
    return jsonschema.Draft202012Validator(report_schema())


@pytest.mark.parametrize("sample", ALL)
def test_every_report_is_as_its_schema_says(validator, sample):
    validator.validate(json.loads(sample().model_dump_json()))


def test_schema_takes_fields_of_a_later_shipper_and_refuses_wrong_types(validator):
    written = json.loads(samples.shipped().model_dump_json())
    assert validator.is_valid({**written, "new_field": 1})
    assert not validator.is_valid({**written, "ships": [{"cluster": 5}]})
