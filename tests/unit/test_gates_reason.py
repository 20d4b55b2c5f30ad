from shipper.errors import SourceError
from spark_jobs import reason

CAST = '[CAST_INVALID_INPUT] The value \'SECRET\' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018'
CUT = (
    "An error occurred while calling o98.collectToPython.\n: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] "
    "Encountered error while reading file file:///logs/b%20cut.gz.  SQLSTATE: KD001\n\tat org.apache.spark.sql.SECRET"
)


def test_a_value_that_spark_quotes_is_left_out():
    assert reason.of_exception(RuntimeError(CAST)).startswith("Spark stopped with CAST_INVALID_INPUT;")
    assert "SECRET" not in reason.of_exception(RuntimeError(CAST))


def test_a_file_that_spark_could_not_read_is_named():
    assert (
        reason.of_exception(RuntimeError(CUT))
        == "file:///logs/b cut.gz cannot be read: gone, not permitted, or corrupt (FAILED_READ_FILE.NO_HINT; Spark's log has the cause)"
    )


def test_a_log_line_cannot_pass_for_sparks_own_words():
    lines = [
        "x [SECRET] y",
        "ValueError: [SECRET]",
        "[USER_RAISED_EXCEPTION] [SECRET] Encountered error while reading file SECRET. ",
    ]
    assert not [line for line in lines if "SECRET" in reason.of_exception(ValueError(line))]


def test_java_errors_without_a_name_give_their_class():
    text = "An error occurred while calling o9.count.\n: java.io.IOException: SECRET"
    assert reason.of_exception(RuntimeError(text)) == (
        "it raised java.io.IOException; the text may quote log lines, so it is left out"
    )


def test_shippers_own_errors_are_for_people():
    assert reason.of_exception(SourceError("cannot read /logs/a: denied")) == "cannot read /logs/a: denied"


def test_both_shapes_of_exception_info_are_understood():
    none = {"raised_exception": False, "exception_traceback": None, "exception_message": None}
    assert reason.of_exception_info(none) is None
    assert reason.of_exception_info({"some metric": none}) is None
    failed = {"raised_exception": True, "exception_traceback": "SECRET", "exception_message": CAST}
    for info in (failed, {"some metric": none, "another": failed}):
        assert "CAST_INVALID_INPUT" in reason.of_exception_info(info)
        assert "SECRET" not in reason.of_exception_info(info)
