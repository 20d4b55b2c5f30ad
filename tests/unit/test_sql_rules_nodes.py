"""Spark's JSON of a plan, as nodes."""

from __future__ import annotations

from typing import Any

from spark_jobs.sql_rules import nodes_in


def entry(name: str, children: int = 0, **fields: Any) -> dict[str, Any]:
    return {"class": f"org.apache.spark.sql.{name}", "num-children": children, **fields}


def test_nodes_of_fields_and_of_plans_in_fields_are_found_with_their_children() -> None:
    inner = [entry("Aggregate"), entry("Relation")]
    expression = [
        entry("Alias", 1),
        entry("Concat", 2),
        entry("Cast", 1),
        entry("Literal"),
        entry("ScalarSubquery", plan=inner),
    ]
    found = {
        node.name: node
        for node in nodes_in([entry("Project", 1, projectList=[expression]), entry("LogicalRDD")])
    }
    assert set(found) == {
        "Project",
        "LogicalRDD",
        "Alias",
        "Concat",
        "Cast",
        "Literal",
        "ScalarSubquery",
        "Aggregate",
        "Relation",
    }
    assert [child.name for child in found["Concat"].children] == ["Cast", "ScalarSubquery"]
    assert (found["Cast"].constant, found["Concat"].constant) == (True, False)


def test_a_condition_of_thousands_of_parts_is_no_deeper_than_another() -> None:
    found = nodes_in([entry("Or", 1) for _ in range(20_000)] + [entry("Rand")])
    assert len(found) == 20_001
    assert found[-1].name == "Rand"
