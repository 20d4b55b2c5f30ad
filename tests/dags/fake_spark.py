"""Stands in for the Python of the Spark side (``runner.python``): called as ``fake -m spark_jobs …
STEP``.

Notes its arguments in ``$SPARK_FAKE/calls``, and does what ``$SPARK_FAKE/script.json`` says for the
step: ``{"ship:near": ["fail", "ok"]}`` fails the first time and succeeds from then on. Without a
word it succeeds. ``closed`` fails unless a check is skipped. ``gather`` makes the report of what
the other steps have left, as the real one does.
"""

import argparse
import datetime as dt
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline_alone
from shipper.config.pipeline import Pipeline
from shipper.report.completed import completed
from shipper.report.incomplete import gaps_before
from shipper.report.late import fresh_until
from shipper.report.plan_result import ClusterPlan, PlanResult
from shipper.report.results import (
    CheckResult,
    Coverage,
    DeliveryGateResult,
    GateResult,
    LeftFile,
    RunReport,
    ShipResult,
    TopicAccount,
    Uncovered,
)
from shipper.report.run_folder import RunFolder
from shipper.report.run_view import first_failure, steps
from shipper.request import RunRequest
from shipper.windows.window import Window

EXIT_CODES = {
    "ok": 0,
    "gather": 0,
    "warn": 0,
    "left": 0,
    "fail": 1,
    "final": 1,
    "dead": 1,
    "usage": 2,
}


def result(step: str, word: str, common: dict[str, Any]):
    kind, _, cluster = step.partition(":")
    topics = [TopicAccount(topic="logs.web", delivered=7, ledger=7)]
    severity = "warn" if word == "warn" else "block"
    passed = common["status"] != "failed" and word != "warn"
    check = CheckResult(
        check="files", severity=severity, passed=passed, expected=">= 1", observed="1"
    )
    match kind:
        case "plan":
            return PlanResult(
                clusters=[ClusterPlan(cluster="near"), ClusterPlan(cluster="far")], **common
            )
        case "gate_source":
            return GateResult(step="gate_source", checks=[check], **common)
        case "ship":
            return ShipResult(cluster=cluster, read=7, topics=topics, **common)
        case "gate_delivery":
            start = common["window_start"]
            hour = Window(start, start + dt.timedelta(hours=1))
            left = [Uncovered(window=str(hour), why="young", files=[LeftFile(path="a.log")])]
            seen = Coverage(
                start=start, end=common["window_end"], uncovered=left if word == "left" else []
            )
            return DeliveryGateResult(
                cluster=cluster, checks=[check], topics=topics, coverage=seen, **common
            )
    return RunReport(**common)


def gathered(folder: RunFolder, pipeline: Pipeline, common: dict[str, Any]) -> RunReport:
    plan, gate = folder.find("plan", PlanResult), folder.find("gate_source", GateResult)
    ships = [folder.find(f"ship.{cluster}", ShipResult) for cluster in ("near", "far")]
    gates = [
        folder.find(f"gate_delivery.{cluster}", DeliveryGateResult) for cluster in ("near", "far")
    ]
    runs_uri = folder.uri.rsplit("/", 3)[0]
    found = RunReport(
        **common,
        plan=plan,
        gate_source=gate,
        ships=[one for one in ships if one],
        delivery_gates=[one for one in gates if one],
        page=folder.path("report.html"),
        gaps=gaps_before(runs_uri, pipeline, common["window_start"]),
        fresh_until=fresh_until(runs_uri, pipeline.name, pipeline.clusters, common["finished_at"]),
    )
    first = first_failure(steps(found))
    if first and first.result:
        found.status, found.error = "failed", f"{first.key}: {first.result.error}"
    return found


def behaviour(folder: Path, step: str, call: int) -> str:
    script = folder / "script.json"
    words = json.loads(script.read_text()).get(step, ["ok"]) if script.exists() else ["ok"]
    return str(words[min(call, len(words) - 1)])


def main() -> int:
    """Takes the steps in turn. After one that fails the report alone is left."""
    parser = argparse.ArgumentParser()
    for option in ("-m", "--config", "--pipeline", "--run-id", "--window", "--request"):
        parser.add_argument(option)
    parser.add_argument("steps", nargs="+")
    arguments = parser.parse_args()
    asked, code = RunRequest(), 0
    if arguments.request:
        file = Path(arguments.request)
        asked = RunRequest.model_validate_json(file.read_text())
        file.unlink()
    for step in arguments.steps:
        if code == 0 or step == "report":
            code = max(code, take(step, arguments, asked))
    return code


def take(step: str, arguments: argparse.Namespace, asked: RunRequest) -> int:
    folder = Path(os.environ["SPARK_FAKE"])
    calls = folder / "calls"
    before = calls.read_text().splitlines() if calls.exists() else []
    with calls.open("a") as lines:
        told = {**vars(arguments), **asked.model_dump(mode="json"), "step": step}
        print(json.dumps(told), file=lines)
    (folder / f"environment.{step}").write_text(json.dumps(dict(os.environ)))
    print(f"fake {step} at work", file=sys.stderr)
    word = behaviour(folder, step, sum(json.loads(line)["step"] == step for line in before))
    if word == "closed":
        word = "ok" if asked.skip_checks else "fail"
    if word == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "hang":
        (folder / "hanging.part").write_text(str(os.getpid()))
        (folder / "hanging.part").rename(folder / "hanging")
        time.sleep(600)
    start, end = (dt.datetime.fromisoformat(moment) for moment in arguments.window.split("/"))
    now = dt.datetime.now(dt.UTC)
    common = {
        "pipeline": arguments.pipeline,
        "window_start": start,
        "window_end": end,
        "run_id": arguments.run_id,
    }
    common |= {"started_at": now, "finished_at": now, "status": "failed"}
    if word in ("ok", "gather", "warn", "left"):
        common["status"] = "succeeded"
    else:
        # As the real steps: a gate that closes stays closed.
        common["final"] = word == "final" or step.partition(":")[0] in (
            "gate_source",
            "gate_delivery",
        )
        common["error"] = f"{step} says why it failed" + " [SHIP-401]" * (word == "dead")
    runs = asked.results_uri(str(Path(arguments.config).parent / "runs"))
    run_folder = RunFolder(runs, arguments.pipeline, Window(start, end), arguments.run_id)
    left = (
        gathered(
            run_folder,
            load_pipeline_alone(Path(arguments.config), arguments.pipeline, EVERYTHING),
            common,
        )
        if word == "gather"
        else result(step, word, common)
    )
    if isinstance(left, DeliveryGateResult) and left.status == "succeeded":
        pipeline = load_pipeline_alone(Path(arguments.config), arguments.pipeline, EVERYTHING)
        left.complete = completed(str(runs), pipeline, left, {})
    run_folder.write(step.replace(":", "."), left)
    return EXIT_CODES[word]


if __name__ == "__main__":
    sys.exit(main())
