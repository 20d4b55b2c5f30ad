from shipper.driver.gate import close_if_needed, closed_message
from shipper.report.results import GateResult
from tests.samples.results import checked, common


def result(check, passed=False, severity="block"):
    return checked(check, passed, "≥ 12 files", "11 files", severity)


def test_only_a_failed_check_that_blocks_closes_the_gate():
    results = [
        result("a", passed=True),
        result("b", severity="warn"),
        result("c"),
        result("d", passed=True, severity="warn"),
    ]
    gate = GateResult(step="gate_source", **common(), checks=results)
    assert [one.check for one in gate.closing] == ["c"]


def test_a_gate_without_a_check_is_closed():
    verdict = close_if_needed(GateResult(step="gate_source", **common()), "x")
    assert verdict.status == "failed"


def test_a_closed_gate_is_asked_again_only_if_something_was_out_of_reach():
    gate = GateResult(step="gate_source", **common())
    for checks, looked, found in (
        ([result("a")], True, ("failed", True)),
        ([result("a")], False, ("failed", False)),
    ):
        verdict = close_if_needed(gate.model_copy(update={"checks": checks}), "x", looked=looked)
        assert (verdict.status, verdict.final) == found
    verdict = close_if_needed(gate.model_copy(update={"checks": [result("a", passed=True)]}), "x")
    assert (verdict.status, verdict.final) == ("succeeded", False)


def test_the_message_stays_short_however_many_checks_fail():
    message = closed_message(
        [result(f"sum_closes(t{i})") for i in range(500)], "after shipping to frankfurt"
    )
    assert message.startswith("500 checks failed: sum_closes(t0): ")
    assert "sum_closes(t4): " in message
    assert "and 495 more." in message
    assert len(message) < 1000
    assert "\n" not in message
