"""DESIGN's invariants, their tests and their mutants fit each other; and ``make mutants`` tells a
caught mutant from any other."""

import pytest

from tests.mutants.design import PAGE, ROOT, invariants, is_defined
from tests.mutants.table import MUTANTS, WITHOUT_MUTANT
from tests.mutants.trial import Mutant, Outcome, TreeCopy
from tests.sim.rules import RULES, TOGETHER

INVARIANTS = invariants(PAGE.read_text())


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda invariant: invariant.rule[:40])
def test_every_invariant_names_a_test_and_has_a_mutant_for_it_or_a_reason_why_not(invariant):
    assert invariant.tests, "its row in design.md names no test"
    assert [test for test in invariant.tests if not is_defined(test)] == []
    shown = {mutant.test for mutant in MUTANTS if invariant.rule.startswith(mutant.invariant)}
    if not shown:
        assert any(
            why and invariant.rule.startswith(beginning)
            for beginning, why in WITHOUT_MUTANT.items()
        )
    else:
        assert shown == set(invariant.tests), (
            "the row names the tests that catch its mutants, and no others"
        )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_removes_a_rule_that_is_there(mutant):
    source = (ROOT / mutant.file).read_text()
    assert mutant.applied_to(source) != source
    assert len([each for each in INVARIANTS if each.rule.startswith(mutant.invariant)]) == 1
    assert is_defined(mutant.test)


@pytest.mark.parametrize("rule", [*RULES, *TOGETHER.values()], ids=lambda rule: rule.name)
def test_every_rule_that_simulated_histories_do_without_is_there(rule):
    source = (ROOT / rule.file).read_text()
    assert rule.applied_to(source) != source


def test_reasons_why_there_is_no_mutant_are_of_rows_without_one():
    for beginning in WITHOUT_MUTANT:
        assert len([each for each in INVARIANTS if each.rule.startswith(beginning)]) == 1
        assert beginning not in {mutant.invariant for mutant in MUTANTS}


RULE = "def allowed(age):\n    return age >= 18\n"
TESTS = """
import pytest
from rule import allowed

def test_children_are_refused():
    assert not allowed(5)

def test_grown_ups_are_allowed():
    assert allowed(30)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A tree with one rule, whose tests have been run once."""
    folder = tmp_path_factory.mktemp("tree")
    (folder / "rule.py").write_text(RULE)
    (folder / "tests" / "unit").mkdir(parents=True)
    (folder / "tests" / "unit" / "test_rule.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    copy = TreeCopy(folder)
    test = "tests/unit/test_rule.py::test_children_are_refused"
    assert copy.run([test], is_first=True)[test].outcome is Outcome.PASSED
    return copy


def mutant(replacement, test="test_children_are_refused", text="    return age >= 18\n"):
    return Mutant("m", "", "rule.py", text, replacement, f"tests/unit/test_rule.py::{test}")


def tried(tree, mutant):
    with tree.mutated(mutant):
        return tree.run([mutant.test])[mutant.test]


def test_a_mutant_is_caught_by_a_test_that_fails_and_by_no_other(tree):
    caught = tried(
        tree, mutant("    return age >=  0\n")
    )  # as long as the rule: a compiled module must not be taken for current
    assert (caught.outcome, caught.reason) == (Outcome.FAILED, "assert not True")
    assert tried(tree, mutant("    return age >= 17\n")).outcome is Outcome.PASSED
    assert (
        tried(tree, mutant("    return age >=  0\n", "test_grown_ups_are_allowed")).outcome
        is Outcome.PASSED
    )
    assert (tree.folder / "rule.py").read_text() == RULE


@pytest.mark.parametrize(
    ("broken", "test", "says"),
    [
        ("    return aeg >= 18\n", "test_children_are_refused", "NameError"),
        (
            "    return age >= 18\nimport nowhere\n",
            "test_children_are_refused",
            "not collected: ModuleNotFoundError",
        ),
        ("    return age >= 0\n", "test_that_is_gone", "not collected"),
    ],
)
def test_code_that_cannot_run_catches_nothing(tree, broken, test, says):
    found = tried(tree, mutant(broken, test))
    assert found.outcome is Outcome.BROKEN
    assert says in found.reason
