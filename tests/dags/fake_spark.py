"""Stands in for the Python of the Spark side (``runner.python``): called as ``fake -m spark_jobs … STEP``.

Notes its arguments in ``$FAKE_SPARK/calls``, and does what ``$FAKE_SPARK/script.json`` says for the step:
``{"ship:near": ["fail", "ok"]}`` fails the first time and succeeds from then on. Without a word it succeeds.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from shipper.report.results import (
    CheckResult,
    DeliveryGateResult,
    GateResult,
    PlanResult,
    RunFolder,
    RunReport,
    ShipResult,
    TopicAccount,
)

EXIT_CODES = {"ok": 0, "silent": 0, "fail": 1, "usage": 2}


def result(step: str, common: dict[str, Any]) -> Any:
    kind, _, cluster = step.partition(":")
    topics = [TopicAccount(topic="logs.web", delivered=7, ledger=7)]
    check = CheckResult(check="files", severity="block", passed=common["status"] != "failed", expected=">= 1", observed="1")
    match kind:
        case "plan":
            return PlanResult(**common)
        case "gate_source":
            return GateResult(step="gate_source", checks=[check], **common)
        case "ship":
            return ShipResult(cluster=cluster, topics=topics, **common)
        case "gate_delivery":
            return DeliveryGateResult(cluster=cluster, checks=[check], topics=topics, **common)
    return RunReport(**common)


def behaviour(folder: Path, step: str, call: int) -> str:
    script = folder / "script.json"
    words = json.loads(script.read_text()).get(step, ["ok"]) if script.exists() else ["ok"]
    return str(words[min(call, len(words) - 1)])


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("-m", "--config", "--pipeline", "--run-id", "--window"):
        parser.add_argument(option)
    parser.add_argument("--reship", action="store_true")
    parser.add_argument("step")
    arguments = parser.parse_args()
    folder, step = Path(os.environ["FAKE_SPARK"]), arguments.step
    calls = folder / "calls"
    before = calls.read_text().splitlines() if calls.exists() else []
    with calls.open("a") as lines:
        print(json.dumps(vars(arguments)), file=lines)
    print(f"fake {step} at work", file=sys.stderr)
    word = behaviour(folder, step, sum(json.loads(line)["step"] == step for line in before))
    if word == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "hang":
        (folder / "hanging.part").write_text(str(os.getpid()))
        (folder / "hanging.part").rename(folder / "hanging")
        time.sleep(600)
    start, end = (dt.datetime.fromisoformat(moment) for moment in arguments.window.split("/"))
    now = dt.datetime.now(dt.UTC)
    common = {"pipeline": arguments.pipeline, "window_start": start, "window_end": end, "run_id": arguments.run_id}
    common |= {"started_at": now, "finished_at": now, "status": "succeeded" if word == "ok" else "failed"}
    if word != "ok":
        common["error"] = f"{step} says why it failed"
    if word != "silent":
        runs = Path(arguments.config).parent / "runs"
        RunFolder(str(runs), arguments.pipeline, start, end, arguments.run_id).write(step.replace(":", "."), result(step, common))
    return EXIT_CODES[word]


if __name__ == "__main__":
    sys.exit(main())
