import datetime as dt

from shipper.cli.console import Terminal
from shipper.cli.show import show_run
from shipper.report.results import CheckResult, DeliveryGateResult, RunReport

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def test_every_check_that_does_not_hold_is_shown_with_both_figures(capsys):
    times = {
        "pipeline": "p",
        "run_id": "r",
        "window_start": NOW,
        "window_end": NOW,
        "started_at": NOW,
        "finished_at": NOW,
    }
    checks = [
        CheckResult(
            check=f"sum_closes(file /logs/[{n}].log)",
            severity="block",
            passed=n == 0,
            expected="10 sent",
            observed="9 found",
        )
        for n in range(8)
    ]
    gate = DeliveryGateResult(cluster="near", checks=checks, **times)
    show_run(RunReport(delivery_gates=[gate], **times), Terminal(), Terminal(stderr=True))
    said = capsys.readouterr().err
    assert all(f"/logs/[{n}].log" in said for n in range(1, 8))
    assert "[0]" not in said
    assert "10 sent" in said
    assert "9 found" in said
    assert "gate_delivery near" in said
