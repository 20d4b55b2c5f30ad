"""Rules that :mod:`tests.sim.power` removes besides those of ``tests/mutants``: rules of ``model/``
that no test there removes, and faults of the past as they would look in the present code."""

from tests.mutants.trial import Mutant

_MODEL, _PAST, _NO_TEST = "model/README.md", "A fault of the past", ""

RULES = (
    Mutant(
        "fences-own-lanes-only",  # FENCE_OWN_LANES_ONLY
        _MODEL,
        "shipper/ledger/control.py",
        "            if generation is None or offset < generation:\n",
        "            if offset == max(self.generations) and generation is None:\n",
        _NO_TEST,
    ),
    Mutant(
        "generation-not-asked-by-tasks",  # NO_RIGHT
        _MODEL,
        "shipper/worker/task.py",
        "        if (control.generation, by.run_id) != (order.generation, order.run_id):\n",
        "        if False:\n",
        _NO_TEST,
    ),
    Mutant(
        "later-attempt-not-heard",  # NO_ATTEMPT_RIGHT
        _MODEL,
        "shipper/worker/task.py",
        "        if attempts[-1:] != [self._key.number]:\n",
        "        if False:\n",
        _NO_TEST,
    ),
    Mutant(
        "later-attempts-read-nothing",  # LATER_READS_NOTHING
        _MODEL,
        "shipper/worker/task.py",
        "        if len(attempts.answer) == 1:\n",
        "        if True:\n",
        _NO_TEST,
    ),
    Mutant(
        "attempt-announced-after-opening",  # ANNOUNCE_AFTER_OPENING
        _MODEL,
        "shipper/worker/task.py",
        "            before = announced.result if self._receipt.retries else lambda: None\n",
        "            before = lambda: None\n",
        _NO_TEST,
    ),
    Mutant(
        "latest-announcement-has-the-right",  # ORDER_OF_THE_LOG
        _MODEL,
        "shipper/ledger/control.py",
        "            insort(known, attempt.number)\n",
        "            known.append(attempt.number)\n",
        _NO_TEST,
    ),
    Mutant(
        "attempt-reads-before-opening",  # READ_BEFORE_OPENING
        _MODEL,
        "shipper/worker/task.py",
        "            meanwhile.submit(self._attempt.ledger.connect, (CONTROL,))\n",
        "            decide = self._attempt.ledger.decide\n"
        "            early = [decide(ask_committed(self._order.chunks_end))]\n"
        "            self._attempt.ledger.decide = lambda asked, *more: (\n"
        "                decide(asked, *more)\n"
        "                if CONTROL in asked.partitions or not early\n"
        "                else early.pop()\n"
        "            )\n",
        _NO_TEST,
    ),
    Mutant(
        "forgotten-before-fenced",  # REMOVED_TOO_EARLY
        _MODEL,
        "shipper/ledger/takeover.py",
        "        meanwhile(before.to_fence())\n",
        "        _forget(ledger, Announced(generation, {}, before.earlier(generation, roots)))\n"
        "        meanwhile({})\n",
        _NO_TEST,
    ),
    Mutant(
        "read-to-the-first-open-transaction",  # READ_TO_FIRST_OPEN
        _MODEL,
        "shipper/kafka/client.py",
        "            if at_lso and wait_seconds is None:\n",
        "            if at_lso:\n",
        _NO_TEST,
    ),
    Mutant(
        "second-scan-without-a-generation",  # SCAN_WITHOUT_GENERATION
        _MODEL,
        "shipper/driver/ship.py",
        "        taken = self._next_generation()\n",
        "",
        _NO_TEST,
    ),
    Mutant(
        "archive-without-fencing",  # ARCHIVE_WITHOUT_FENCE
        _MODEL,
        "shipper/ledger/takeover.py",
        "        fenced = fence_earlier_runs(ledger, settings, Generation(run_id, 1, 1),"
        " lease=lease)\n",
        "        fenced = announce(ledger, Generation(run_id, 1, 1), lease=lease)\n",
        _NO_TEST,
    ),
    Mutant(
        "archive-named-after-its-tombstones",  # MARKER_AFTER_TOMBSTONES
        _MODEL,
        "shipper/ledger/archive.py",
        "[marker, *over]",
        "[*over, marker]",
        _NO_TEST,
    ),
    Mutant(
        "topic-hides-archive",  # TOPIC_HIDES_ARCHIVE
        _MODEL,
        "shipper/ledger/fold.py",
        "                    and (key not in latest or record.offset > latest[key].offset)\n",
        "",
        _NO_TEST,
    ),
    Mutant(
        "stale-plan",  # DECIDED_BY_THE_PLAN
        _MODEL,
        "shipper/driver/ship.py",
        "ask, taken.chunks, self._seen, taken.alike\n            )\n",
        "ask, taken.chunks, self._seen, taken.alike\n            )\n"
        "            self._originals.update(\n"
        "                (f.id, []) for f in self._files if f.left and not f.unknown\n"
        "            )\n",
        _NO_TEST,
    ),
    Mutant(
        "own-run-is-believed",  # OWN_RUN_IS_BELIEVED, C4
        _MODEL,
        "shipper/driver/looking.py",
        "            if chunks.knows(one)\n",
        "            if chunks.knows(one) and not any(\n"
        "                chunk.run_id == context.folder.run_id\n"
        "                for split, state in chunks.splits.items()\n"
        "                if split.file == one\n"
        "                for chunk in state.chunks.values()\n"
        "            )\n",
        _NO_TEST,
    ),
    Mutant(
        "part-is-new",  # PART_IS_NEW
        _MODEL,
        "shipper/driver/decide.py",
        "        lambda case: case.doubtful is not None,\n",
        "        lambda case: False,\n",
        _NO_TEST,
    ),
    Mutant(
        "append-believes-an-unknown-offset",  # S9
        _PAST,
        "shipper/kafka/client.py",
        "                raise self._not_written(\n",
        "                return [0] * len(list(offsets) + left) if left else offsets\n"
        "                raise self._not_written(\n",
        _NO_TEST,
    ),
    Mutant(
        "unasked-cluster-recognises-nothing",  # C2
        _PAST,
        "shipper/driver/ship.py",
        "        self._engine_looks_at(self._seen)\n",
        "        if self._planned_cluster.generation is None:\n"
        "            self._originals = {file.id: [] for file in self._seen}\n"
        "            return\n"
        "        self._engine_looks_at(self._seen)\n",
        _NO_TEST,
    ),
    Mutant(
        "named-files-cover-their-window",  # C7
        _PAST,
        "shipper/report/window_records.py",
        "asked=look.asked and not plan.asked.files,",
        "asked=look.asked,",
        _NO_TEST,
    ),
    Mutant(
        "listed-means-there",  # C10
        _PAST,
        "shipper/driver/looking.py",
        "            and not _lies_there(one, chunks.etags.get(one, ()), there[one.path])\n",
        "            and one not in {file.id for file in files}\n",
        _NO_TEST,
    ),
    Mutant(
        "chunk-of-a-twice-written-record-counted-twice",
        _PAST,
        "shipper/worker/shipment.py",
        "self._predecessors[chunk.key] = chunk",
        "self._predecessors[chunk.key, chunk.offset] = chunk",
        _NO_TEST,
    ),
    Mutant(
        "overwritten-object-keeps-its-chunks",
        _PAST,
        "shipper/driver/decide.py",
        '        is_anew = rule.anew or (rule.outcome == "ship" and file.id in overwritten)\n',
        "        is_anew = rule.anew\n",
        _NO_TEST,
    ),
    Mutant(
        "older-plan-takes-later-content-back",
        _PAST,
        "shipper/driver/ship.py",
        "        self._look_for([one.file for one in found.each if one.void and one.rule !="
        ' "reship"])\n',
        "",
        _NO_TEST,
    ),
    Mutant(
        "topic-made-anew-during-a-ship-is-sent-to-again",
        _PAST,
        "shipper/driver/ship.py",
        'on_recreated == "resend" and not is_ours\n',
        'on_recreated == "resend"\n',
        _NO_TEST,
    ),
    Mutant(
        "second-scan-without-the-right",
        _PAST,
        "shipper/driver/ship.py",
        "        right_of(self._ledger, self._result.generations[-1]).check()\n",
        "",
        _NO_TEST,
    ),
    Mutant(
        "gates-outlive-their-ledger",
        _PAST,
        "shipper/driver/earlier_gates.py",
        "        if begun and gate.ship.started_at < dt.datetime.fromisoformat(begun.at):\n",
        "        if False:\n",
        _NO_TEST,
    ),
    Mutant(
        "ledger-not-compared-after-the-takeover",
        _PAST,
        "shipper/driver/ship.py",
        "            self._identity.confirm()\n",
        "",
        _NO_TEST,
    ),
    Mutant(
        "anothers-ledger-is-overwritten",
        _PAST,
        "shipper/ledger/identity.py",
        "            self.confirm()\n",
        "",
        _NO_TEST,
    ),
)

#: Rule that another one covers → that other one. They are removed together.
TOGETHER = {
    "header-proves": Mutant(
        "short-files-everywhere",
        _PAST,
        "shipper/driver/looking.py",
        "rotated_from(file.path) if alike else []",
        "list(ask(ask_state()).chunks.files_of_path) if alike else []",
        _NO_TEST,
    )
}

#: Rule that needs one certain course → module and test that script it.
SCRIPTED = {
    "right-read-before-opening": "test_rules"
    " test_a_read_that_began_before_a_lane_was_open_says_nothing_about_it",
    "right-covers-later-openings": "test_rules"
    " test_a_read_covers_no_lane_that_was_opened_before_its_answer",
    "lanes-seen-before-the-announcement-alone": "test_rules"
    " test_lanes_of_a_run_that_came_before_the_announcement_are_fenced",
    "fences-own-lanes-only": "test_rules"
    " test_lanes_are_fenced_although_a_run_between_announced_itself_and_died",
    "forgotten-before-fenced": "test_rules"
    " test_lanes_are_fenced_although_a_run_between_announced_itself_and_died",
    "archive-without-fencing": "test_rules test_an_archive_fences_the_lanes_of_runs",
    "latest-invalidation-counts": "test_rules"
    " test_an_invalidation_that_comes_late_brings_no_chunk_back",
    "latest-announcement-has-the-right": "test_rules"
    " test_an_attempt_that_announces_itself_late_has_no_right",
    "attempt-announced-after-opening": "test_rules"
    " test_a_later_attempt_fences_nobody_before_it_has_announced_itself",
    "ids-from-before-the-read": "test_rules"
    " test_ids_of_before_the_ledger_was_read_make_no_later_chunk_a_lost_one",
    "early-look-confirms": "test_rules"
    " test_a_look_at_ids_that_began_before_the_records_confirms_none",
    "topic-hides-archive": "test_rules"
    " test_a_chunk_that_a_snapshot_has_does_not_hide_the_later_one_of_the_archive",
    "later-result-overwritten": "test_rules"
    " test_an_attempt_that_wakes_up_writes_over_no_later_result",
    "limit-of-all-lanes-compared": "test_rules"
    " test_a_batch_that_was_built_by_an_old_limit_holds_no_record_that_is_too_large",
    "gates-outlive-their-ledger": "test_rules"
    " test_a_gate_that_closed_is_not_counted_again_by_another_ledger",
    "second-scan-without-the-right": "test_superseded"
    " test_a_ship_that_was_taken_over_between_two_passes_does_not_take_over_again",
}

#: Fault of the past, by its name in reviews and decisions → the rules whose removal brings it back.
PAST = {
    "A1": "right-of-an-archive-is-looked-at",
    "A7": "attempt-key-without-its-generation",
    "R1": "gone-chunks-count",
    "S9": "append-believes-an-unknown-offset",
    "stale plan": "stale-plan",
    "C2": "unasked-cluster-recognises-nothing",
    "C3": "header-proves",
    "C3, three copies": "two-heirs",
    "C4": "own-run-is-believed",
    "C7": "named-files-cover-their-window",
    "C10": "listed-means-there",
}

#: Rule of simulated code that no history can meet → why.
NOT_MET = {
    "former-format-is-read": "no ledger of an earlier format",
    "old-times-sent": "no record has a time of its own",
    "no-margin-for-a-wait": "no record has a time of its own",
    "name-decides-format": "the simulated engine, not the bytes, says what a file is",
    "key-of-a-quarantined-record": "no record is refused",
    "worker-not-in-digest": "one tree runs everything",
    "throttling-not-heard": "a quota costs time, and no promise",
    "archive-named-after-its-tombstones": "one transaction holds all of a small archive",
    "lane-asks-the-ledger-before-fencing": "that read waits for the lane's own transaction, whose"
    " ledger record lies before the barrier (read-to-the-first-open-transaction)",
    "no-barrier-on-the-control-partition": "whoever asks has written its generation there, and a"
    " read reaches what its process wrote (`least_end`)",
    "invalidation-without-the-right": "a late invalidation hides what is then sent once more, as"
    " that reship asked for; it may also come between the check and the write (model/README.md)",
    "missing-ledger-is-new": "the ledger's id is compared twice more, by the takeover",
    "size-not-compared": "the same run compares the bytes in the ledger (bytes-never-compared)",
}
