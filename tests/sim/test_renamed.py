"""A file that was renamed, packed, copied or has grown is known by its content: each line is in the
topic as often as it was written. Real servers are asked for the sums alone, and for one rotation
(tests/integration/test_renamed.py)."""

from unittest.mock import patch

from shipper.driver import looking
from tests.sim.course import course


@course()
def test_a_path_that_files_pass_through_takes_a_file_that_nobody_has_seen(world):
    """A file may be written and renamed between two runs, and a new one may be empty at first."""
    world.write("app.log", 10)
    world.run()
    world.rename("app.log", "app.log.1")
    world.write("app.log", 0)
    run = world.run()
    assert (run.recognised, run.sent) == ([("app.log", "app.log.1", True)], 0)
    assert world.run().sent == 0, "the empty file is all that is there beside what was delivered"
    world.rename("app.log.1", "app.log.2")
    world.write("app.log.1", 20)
    run = world.run()
    assert (run.recognised, run.sent) == ([("app.log.1", "app.log.2", True)], 20)
    assert set(world.found().values()) == {1}


@course(on_replaced="continue")
def test_a_copy_beside_what_its_original_became_is_shipped(world):
    """The original lies there, if under another name or longer than it was when it was shipped."""
    world.write("a.log", 50)
    world.run()
    world.grow("a.log", 30)
    assert world.run().sent == 30
    world.copy("a.log", "copy.log")
    assert world.run().sent == 80
    world.rename("a.log", "b.log")
    world.run()
    world.rename("b.log", "c.log")
    world.run()
    world.copy("copy.log", "another.log")
    assert world.run().sent == 80
    assert set(world.found().values()) == {3}


@course(on_renamed="ship")
def test_a_new_name_is_a_new_file_if_the_pipeline_says_so(world):
    world.write("a.log", 50)
    world.run()
    world.rename("a.log", "b.log")
    assert world.run().sent == 50


@course(on_replaced="continue")
def test_a_file_that_has_grown_is_continued_under_its_name_and_another(world):
    world.write("app.log", 40)
    world.run()
    world.grow("app.log", 40)
    run = world.run()
    assert (run.recognised, run.sent) == ([("app.log", "app.log", False)], 40)
    world.grow("app.log", 40)
    world.rename("app.log", "app.log.1")
    run = world.run()
    assert (run.recognised, run.sent) == ([("app.log", "app.log.1", False)], 40)
    world.pack("app.log.1")
    world.write("app.log", 3)
    run = world.run()
    assert (run.recognised, run.sent) == ([("app.log.1", "app.log.1.gz", True)], 3)
    assert set(world.found().values()) == {1}


@course(on_replaced="fail")
def test_a_file_that_has_grown_stops_the_run_and_a_copy_of_its_beginning_is_that_file(world):
    world.write("app.log", 40)
    world.run()
    world.copy("app.log", "app.log.bak")
    world.grow("app.log", 1)
    assert (world.run().code, world.found().total()) == (1, 40)
    world.rename("app.log", "app.log.1")
    run = world.run()
    assert (run.recognised, run.left_out, run.sent) == ([("app.log", "app.log.bak", True)], [], 41)


@course(on_replaced="continue")
def test_a_short_log_that_grew_before_it_was_rotated_goes_on(world):
    """It had less than a head, so only its name says where it was."""
    world.write("app.log", 1)
    world.run()
    world.grow("app.log", 50)
    world.rename("app.log", "app.log.1")
    world.pack("app.log.1")
    world.write("app.log", 3)
    run = world.run()
    assert (run.recognised, run.sent) == ([("app.log", "app.log.1.gz", False)], 53)
    assert set(world.found().values()) == {1}


@course(on_replaced="fail")
def test_a_log_that_grew_before_it_was_rotated_is_left_out_and_its_successor_is_shipped(world):
    """What logrotate leaves if lines come between the last run and the rotation. Nothing was
    replaced."""
    world.write("app.log", 40)
    world.run()
    world.grow("app.log", 50)
    world.rename("app.log", "app.log.1")
    world.write("app.log", 30)
    run = world.run()
    assert (run.left_out, run.sent) == (["app.log.1"], 30)
    world.settings["on_replaced"] = "continue"
    assert world.run().sent == 50
    assert set(world.found().values()) == {1}


@course(on_replaced="continue")
def test_a_new_log_at_the_path_of_one_that_was_rotated_out_is_shipped(world):
    """logrotate keeps a few files. If no run looks for longer than that, what was shipped is
    nowhere, and each path holds what nobody has seen."""
    for name in ("app.log", "app.log.1"):
        world.write(name, 40)
    world.run()
    for name in ("app.log", "app.log.1"):
        world.write(name, 45)
    run = world.run()
    assert (run.left_out, run.sent) == ([], 90)
    assert world.run().sent == 0
    world.grow("app.log", 7)
    assert world.run().sent == 7, "what lay there first is forgotten"
    world.write("app.log", 0)
    world.write("other.log", 1)
    assert world.run().sent == 1, "an empty file holds nothing that was shipped"


@course(on_replaced="continue")
def test_a_file_that_became_shorter_is_left_out_by_name_and_holds_up_no_other(world):
    world.write("a.log", 40)
    world.write("b.log", 40)
    world.run()
    for name in ("a.log", "b.log"):
        world.source.files[f"{world.source.root}{name}"].lines = 20
    world.write("other.log", 1)
    run = world.run()
    assert (run.left_out, run.sent) == (["a.log", "b.log"], 1)
    assert [one.code for one in run.plan.left_out] == ["doubtful"] * 2
    world.rename("a.log", "c.log")  # the remedy that the reason names, for another file
    run = world.run()
    assert (run.left_out, run.sent) == (["b.log"], 20)


@course()
def test_files_with_the_header_of_one_that_is_gone_are_shipped(world):
    world.write("old.log", 1, headed=True)
    world.write("older.log", 50, headed=True)
    world.run()
    world.remove("old.log")
    world.remove("older.log")
    world.write("new.log", 400, headed=True)
    world.write("short.log", 3, headed=True)
    run = world.run()
    assert (run.recognised, run.left_out, run.sent) == ([], [], 403)


@course(on_replaced="continue")
def test_a_log_goes_on_though_longer_ones_that_are_gone_began_alike(world):
    for number in range(6):
        world.write(f"old-{number}.log", 30 + number, headed=True)
    world.write("app.log", 5, headed=True)
    world.run()
    for number in range(6):
        world.remove(f"old-{number}.log")
    world.grow("app.log", 90)
    world.rename("app.log", "app.log.1")
    run = world.run()
    assert (run.recognised, run.left_out, run.sent) == ([("app.log", "app.log.1", False)], [], 90)


@course()
def test_two_runs_that_recognise_the_same_file_send_nothing(world):
    world.write("a.log", 40)
    world.run()
    world.rename("a.log", "b.log")
    world.run("planned", "plan")  # and killed
    assert world.run().recognised == [("a.log", "b.log", True)]
    assert world.run("planned", "gate_source", "ship:one", "gate_delivery:one").sent == 0
    assert set(world.found().values()) == {1}


@course()
def test_a_ship_asks_in_its_takeover_which_files_begin_like_those_of_the_plan(world):
    """Over 140 ms another question after it took 0.4 s, and read the end of the ledger again."""
    world.write("a.log", 50)
    world.run()
    world.rename("a.log", "b.log")
    world.write("new.log", 50)
    asked = []
    ask = looking.ask_heads
    with patch.object(looking, "ask_heads", lambda heads: asked.append(heads) or ask(heads)):
        planned = world.run("second", "plan", "gate_source")
        assert (planned.recognised, len(asked)) == ([("a.log", "b.log", True)], 1)
        assert (world.run("second", "ship:one").sent, len(asked)) == (50, 1)
    assert set(world.found().values()) == {1}
