"""The mutants: each removes one rule of DESIGN's table of invariants."""

from tests.mutants.trial import Mutant

#: Beginning of an invariant → why no mutant removes the rule.
WITHOUT_MUTANT: dict[str, str] = {}

_RIGHT = "The right to ship is read after a lane is opened"
_NEW_EPOCH = "A producer that lost a connection begins no further transaction"
_LEDGER_LAST = "The ledger's record is written when the records are acknowledged"
_FENCE_FIRST = "Lanes are fenced after the announcement"
_BARRIER = "A read of the ledger that decides what is sent"
_BYTES = "The bytes that a file's splits account for"
_INVALIDATION = "Of several invalidations of a file"
_ATTEMPT_KEY = "An attempt's key holds its generation"
_LEDGER_FORMAT = "A ledger of another format"
_LOWERED = "A batch that a topic refuses"
_TIMES = "A record's time and key are held against its topic's bounds"
_THROTTLED = "A lane that a broker throttles"
_TOPIC_ID = "A chunk names the topic's id"
_ORDINALS = "A split's ordinals depend on its bytes alone"
_END_ROW = "A split ends by a row that says so"
_IDENTITY = "A file's identity is its path"
_RENAMED = "What is done about a file is decided once"
_FORMAT = "The bytes decide a file's format"
_FIRST_ORDINAL = "A chunk's first ordinal is its key"
_LAST_CALL = "A call into the JVM that a signal interrupted"
_LEDGER_GONE = "A ledger that is gone, or was made anew"
_OWN_RECORD = "A run that asks for its right"
_SAME_CODE = "A task runs the code that its driver runs"
_WAKES_UP = "A step that was paused and wakes up"

MUTANTS = (
    Mutant(
        "right-not-read",
        _RIGHT,
        "shipper/kafka/transaction.py",
        "        self._right.confirm(self._opening)\n",
        "",
        "tests/sim/test_rules.py::test_a_read_covers_no_lane_that_was_opened_before_its_answer",
    ),
    Mutant(
        "right-read-before-opening",
        _RIGHT,
        "shipper/kafka/transaction.py",
        "        producer.init(until)\n        self._opening = self._right.opened()\n",
        "        self._opening = self._right.opened()\n        producer.init(until)\n",
        "tests/sim/test_rules.py::test_a_read_that_began_before_a_lane_was_open_says_nothing_about_it",
    ),
    Mutant(
        "right-covers-later-openings",
        _RIGHT,
        "shipper/kafka/transaction.py",
        "        with self._numbers:\n            covers = self._opened\n        found = "
        "self._read()\n",
        "        found = self._read()\n        with self._numbers:\n            covers = "
        "self._opened\n",
        "tests/sim/test_rules.py::test_a_read_covers_no_lane_that_was_opened_before_its_answer",
    ),
    Mutant(
        "epoch-kept",
        _NEW_EPOCH,
        "shipper/kafka/transaction.py",
        "if self._producer is not None and self._producer.lost_connection():",
        "if False:",
        "tests/unit/test_transaction.py::test_a_producer_that_lost_a_connection_begins_nothing_more",
    ),
    Mutant(
        "lost-connection-not-heard",
        _NEW_EPOCH,
        "shipper/kafka/transaction.py",
        "return self._transactional and (self._log_listener.lost or not sound)",
        "return self._transactional and not sound",
        "tests/unit/test_lane_producer.py::test_a_connection_that_broke_is_noticed_though_no_call_failed",
    ),
    Mutant(
        "ledger-beside-records",
        _LEDGER_LAST,
        "shipper/worker/lane.py",
        "                self._flush(producer)\n                self._paid_bytes",
        "                self._paid_bytes",
        "tests/unit/test_lane.py::test_a_transaction_that_ends_too_early_never_promises_what_was_not_sent",
    ),
    Mutant(
        "ledger-first",
        _LEDGER_LAST,
        "shipper/worker/lane.py",
        "            for number, batch in enumerate(rounds):\n",
        "            self._write_ledger(producer, chunks, ids)\n"
        "            for number, batch in enumerate(rounds):\n",
        "tests/unit/test_lane.py::test_a_transaction_that_ends_too_early_never_promises_what_was_not_sent",
    ),
    Mutant(
        "lanes-seen-before-the-announcement-alone",
        _FENCE_FIRST,
        "shipper/ledger/takeover.py",
        "        close(announced.to_fence)\n",
        "",
        "tests/unit/test_takeover.py::test_every_lane_of_a_run_that_announced_itself_meanwhile_is_fenced_once_ours_is_written",
    ),
    Mutant(
        "one-key-for-all-announcements",
        _FENCE_FIRST,
        "shipper/ledger/takeover.py",
        "GenerationKey(ledger.cluster.name, runtime.token_hex(8))",
        'GenerationKey(ledger.cluster.name, "the same")',
        "tests/unit/test_takeover.py::test_every_lane_of_a_run_that_announced_itself_meanwhile_is_fenced_once_ours_is_written",
    ),
    Mutant(
        "ledger-read-before-fencing",
        _FENCE_FIRST,
        "shipper/ledger/takeover.py",
        (
            "    fenced = fence_earlier_runs(ledger, settings, run, lease=lease, fences=fences)\n"
            '    with runtime.ThreadPoolExecutor(1, thread_name_prefix="forget") as meanwhile:\n'
            "        meanwhile.submit(_forget, ledger, fenced)\n"
            "        state = ledger.decide(question).answer\n"
        ),
        (
            "    state = ledger.decide(question).answer\n"
            "    fenced = fence_earlier_runs(ledger, settings, run, lease=lease, fences=fences)\n"
            '    with runtime.ThreadPoolExecutor(1, thread_name_prefix="forget") as meanwhile:\n'
            "        meanwhile.submit(_forget, ledger, fenced)\n"
        ),
        "tests/unit/test_takeover.py::test_what_a_lane_commits_until_it_is_fenced_is_known_to_the_run_that_takes_over",
    ),
    Mutant(
        "lane-asks-the-ledger-before-fencing",
        _FENCE_FIRST,
        "shipper/worker/lane.py",
        "            self._open()\n            committed = self._pool.resolve_outcome().answer\n",
        "            committed = self._pool.resolve_outcome().answer\n            self._open()\n",
        "tests/unit/test_lane.py::test_a_commit_that_arrives_when_its_answer_is_given_up_is_not_sent_again",
    ),
    Mutant(
        "no-barrier",
        _BARRIER,
        "shipper/ledger/log.py",
        "                with self.writing(barriers), self._named():\n",
        "                with self._named():\n",
        "tests/unit/test_deciding_read.py::test_a_leader_that_was_replaced_is_believed_by_who_looks_and_by_nobody_who_decides",
    ),
    Mutant(
        "no-barrier-on-the-control-partition",
        _BARRIER,
        "shipper/ledger/log.py",
        "LedgerQuestion(files.partitions, lambda ledger, wait: add_up",
        "LedgerQuestion((CHUNKS,), lambda ledger, wait: add_up",
        "tests/unit/test_deciding_read.py::test_an_invalidation_that_the_old_leader_does_not_have_counts_for_a_takeover",
    ),
    Mutant(
        "right-of-an-archive-is-looked-at",
        _BARRIER,
        "shipper/ledger/writing.py",
        "        found = ledger.of_generation(generation).decide(CONTROL_NOW)\n",
        "        own = ledger.of_generation(generation)\n"
        "        found: Decided[Control] = Decided(own.look(CONTROL_NOW))\n",
        "tests/unit/test_deciding_read.py::test_an_archive_or_repair_that_was_taken_over_hears_of_it",
    ),
    Mutant(
        "right-of-a-task-is-looked-at",
        _BARRIER,
        "shipper/worker/task.py",
        "        found = self.ledger.of_generation(order.generation).decide(CONTROL_NOW)\n",
        "        own = self.ledger.of_generation(order.generation)\n"
        "        found: Decided[object] = Decided(own.look(CONTROL_NOW))\n",
        "tests/unit/test_deciding_read.py::test_a_run_that_was_taken_over_hears_of_it",
    ),
    Mutant(
        "right-read-from-another-ledger",
        _OWN_RECORD,
        "shipper/worker/task.py",
        "        found = self.ledger.of_generation(order.generation).decide(CONTROL_NOW)\n",
        "        found = self.ledger.decide(CONTROL_NOW)\n",
        "tests/unit/test_deciding_read.py::test_a_ledger_that_was_made_anew_gives_no_right_to_those_who_read_the_one_before",
    ),
    Mutant(
        "bytes-never-compared",
        _BYTES,
        "shipper/ledger/fold.py",
        '        return "complete" if fit else "misread"\n',
        '        return "complete"\n',
        "tests/unit/test_ledger.py::TestBytes::test_a_short_read_is_refused_by_name_in_every_later_run",
    ),
    Mutant(
        "bytes-not-written",
        _BYTES,
        "shipper/worker/shipment.py",
        "self._read = self._read_of_file() if self._ends else None",
        "self._read = None",
        "tests/unit/test_task_shipment.py::test_the_end_of_a_split_says_how_many_bytes_of_the_file_it_accounts_for",
    ),
    Mutant(
        "latest-invalidation-counts",
        _INVALIDATION,
        "shipper/ledger/fold.py",
        (
            "                highest[file] = Invalidated(\n"
            "                    max(known.generation, generation), known.asked_by | {run_id}\n"
            "                )\n"
        ),
        "                highest[file] = Invalidated(generation, known.asked_by | {run_id})\n",
        "tests/unit/test_ledger.py::TestRemaining::test_of_several_invalidations_the_highest_generation_counts_whichever_comes_last",
    ),
    Mutant(
        "invalidation-without-the-right",
        _INVALIDATION,
        "shipper/ledger/writing.py",
        "    right_of(ledger, generation).check()\n",
        "",
        "tests/unit/test_deciding_read.py::test_a_reship_that_was_taken_over_invalidates_nothing",
    ),
    Mutant(
        "attempt-key-without-its-generation",
        _ATTEMPT_KEY,
        "shipper/ledger/codec.py",
        '_record("attempt", pipeline, *key, value=value)',
        '_record("attempt", pipeline, 2, key.task, key.number, value=value)',
        "tests/sim/test_rules.py::test_an_attempt_that_announces_itself_late_has_no_right",
    ),
    Mutant(
        "former-format-is-read",
        _LEDGER_FORMAT,
        "shipper/ledger/codec.py",
        "            raise Unsound(FORMER_FORMAT)\n        return None\n",
        "            return None\n        return None\n",
        "tests/unit/test_ledger.py::test_a_ledger_of_before_format_1_is_refused_with_the_remedy",
    ),
    Mutant(
        "topic-not-confirmed",
        _TOPIC_ID,
        "shipper/worker/lane.py",
        "            if topic_id != before[topic]:\n",
        "            if False:\n",
        "tests/integration/test_pool_ids.py::test_a_transaction_whose_topic_changed_is_sent_again_under_the_new_id",
    ),
    Mutant(
        "early-look-confirms",
        _TOPIC_ID,
        "shipper/kafka/topic_ids.py",
        "return topic in self._answers and self._answers[topic].began >= number",
        "return topic in self._answers",
        "tests/sim/test_rules.py::test_a_look_at_ids_that_began_before_the_records_confirms_none",
    ),
    Mutant(
        "ids-from-before-the-read",
        _TOPIC_ID,
        "shipper/driver/recreated.py",
        "compare(chunks, client.present_ids(wanted), ",
        "compare(chunks, present or client.present_ids(wanted), ",
        "tests/sim/test_rules.py::test_ids_of_before_the_ledger_was_read_make_no_later_chunk_a_lost_one",
    ),
    Mutant(
        "gone-chunks-count",
        _TOPIC_ID,
        "shipper/ledger/incarnations.py",
        "found = Incarnations(there, present, gone)",
        "found = Incarnations(chunks, present, gone)",
        "tests/unit/test_recreated.py::test_what_is_lost_does_not_count_as_there",
    ),
    Mutant(
        "limit-of-all-lanes-compared",
        _LOWERED,
        "shipper/worker/lane.py",
        "limit.uncompressed_bytes >= self._built_by.get(topic, math.inf):\n",
        "limit.uncompressed_bytes >= self._options.limits.limit(topic).uncompressed_bytes:\n",
        "tests/integration/test_pool.py::test_a_limit_that_is_lowered_during_a_run_is_kept_to_by_every_lane",
    ),
    Mutant(
        "old-times-sent",
        _TIMES,
        "shipper/worker/assign.py",
        "(self._times < first) | (self._times > last)",
        "self._times > last",
        "tests/integration/test_record_times.py::test_a_record_whose_time_the_topic_refuses_goes_to_quarantine_and_the_others_are_shipped",
    ),
    Mutant(
        "no-margin-for-a-wait",
        _TIMES,
        "shipper/worker/assign.py",
        "max(1, now_ms - limit.max_age_ms + waits)",
        "max(1, now_ms - limit.max_age_ms)",
        "tests/unit/test_topic_settings.py::test_a_record_may_wait_for_its_topic_and_is_still_taken_then",
    ),
    Mutant(
        "throttling-not-heard",
        _THROTTLED,
        "shipper/worker/rate.py",
        "        if told.seconds <= 0:\n            return\n",
        "        return\n",
        "tests/unit/test_rate.py::test_a_quota_is_learned_from_what_brokers_throttle",
    ),
    Mutant(
        "cuts-by-cores",
        _ORDINALS,
        "shipper/config/pipeline.py",
        "return self.source.split_size_bytes if cut else WHOLE_FILES_BYTES",
        "return self.source.split_size_bytes // self.runner.cores if cut else WHOLE_FILES_BYTES",
        "tests/unit/test_transform_digest.py::test_a_file_has_the_same_splits_on_any_number_of_cores",
    ),
    Mutant(
        "cut-not-in-digest",
        _ORDINALS,
        "shipper/config/pipeline.py",
        '            "split_size": self.split_size_bytes,\n',
        "",
        "tests/unit/test_transform_digest.py::test_what_decides_the_records_of_a_file_changes_the_digest",
    ),
    Mutant(
        "routes-not-in-digest",
        _ORDINALS,
        "shipper/config/pipeline.py",
        'route.model_dump(include={"topic", "when"})',
        'route.model_dump(include={"topic"} - {"topic"})',
        "tests/unit/test_transform_digest.py::test_what_decides_the_records_of_a_file_changes_the_digest",
    ),
    Mutant(
        "spark-settings-not-in-digest",
        _ORDINALS,
        "shipper/config/pipeline.py",
        "if spark := deciding(self.runner.conf):",
        "if spark := None:",
        "tests/unit/test_transform_digest.py::test_what_decides_the_records_of_a_file_changes_the_digest",
    ),
    Mutant(
        "digest-not-compared",
        _ORDINALS,
        "shipper/driver/decide.py",
        "case.is_older or case.is_cut_otherwise or case.is_routed_otherwise",
        "False",
        "tests/unit/test_ledger.py::TestRemaining::test_a_file_begun_under_another_transform_is_refused",
    ),
    Mutant(
        "sql-by-chance",
        _ORDINALS,
        "spark_jobs/sql_rules.py",
        "if not self.plan.deterministic() or any(",
        "if any(",
        "tests/integration/test_sql_rules.py::test_what_does_not_give_one_value_of_its_line_alone_is_refused",
    ),
    Mutant(
        "stream-ends-split",
        _END_ROW,
        "shipper/worker/cut.py",
        "                start += count\n    if part is not None:\n        yield part\n",
        "                start += count\n    if part is not None:\n        yield replace(part, "
        "ends_split=True)\n",
        "tests/unit/test_task_shipment.py::test_a_split_whose_stream_was_cut_off_is_finished_by_the_next_run",
    ),
    Mutant(
        "next-split-ends-split",
        _END_ROW,
        "shipper/worker/cut.py",
        "            if part is not None and part.split != split:\n                yield part\n",
        "            if part is not None and part.split != split:\n                yield "
        "replace(part, ends_split=True)\n",
        "tests/unit/test_reading.py::test_a_stream_that_is_cut_off_ends_no_split",
    ),
    Mutant(
        "chunk-ends-split",
        _END_ROW,
        "shipper/worker/shipment.py",
        "                topic, chosen, first, end, missing, ends_split=self._ends and end == "
        "part.end\n",
        "                topic, chosen, first, end, missing, ends_split=end == part.end\n",
        "tests/unit/test_task_shipment.py::test_a_split_whose_stream_was_cut_off_is_finished_by_the_next_run",
    ),
    Mutant(
        "broken-piece-ends",
        _END_ROW,
        "jvm/shipper/lines/ReaderFactory.java",
        "rows.add(this::broken);",
        "rows.add(this::ended);",
        "tests/integration/test_reader.py::test_a_damaged_file_is_never_read_in_part_without_a_word",
    ),
    Mutant(
        "moved-file-is-new",
        _IDENTITY,
        "shipper/ledger/roots.py",
        "if self.former and now.startswith(self.current):",
        "if False:",
        "tests/property/test_roots.py::test_what_was_shipped_from_the_old_root_is_not_shipped_from_the_new_one",
    ),
    Mutant(
        "path-of-the-old-root-kept",
        _IDENTITY,
        "shipper/ledger/roots.py",
        "return path if root is None else self.current + path[len(root) :]",
        "return path",
        "tests/property/test_roots.py::test_a_ledger_over_several_roots_says_what_one_over_the_last_root_says",
    ),
    Mutant(
        "replaced-file-is-new",
        _IDENTITY,
        "shipper/driver/decide.py",
        "return bool(self.others) and self.policy.on_replaced == policy",
        "return False",
        "tests/unit/test_ledger.py::TestRemaining::test_a_replaced_file_is_an_error_skipped_or_shipped_anew",
    ),
    Mutant(
        "etag-ignored",
        _IDENTITY,
        "shipper/driver/decide.py",
        "    overwritten = chunks.overwritten(files)\n",
        "    overwritten: set[FileId] = set()\n",
        "tests/unit/test_ledger.py::TestRemaining::test_an_object_with_another_etag_is_another_file",
    ),
    Mutant(
        "planned-file-not-compared",
        _IDENTITY,
        "jvm/shipper/lines/Content.java",
        "        return same && status.getLen() == piece.size();\n",
        "        return true;\n",
        "tests/integration/test_reader.py::test_a_file_that_was_replaced_or_removed_after_the_plan_is_said_to_be",
    ),
    Mutant(
        "name-decides-format",
        _FORMAT,
        "shipper/driver/recognition.py",
        "    found = _by_magic(head)\n",
        "    found = _by_name(name)\n",
        "tests/unit/test_formats.py::test_what_the_bytes_do_not_make_certain_is_refused_with_the_reason",
    ),
    Mutant(
        "size-not-compared",
        _FORMAT,
        "shipper/driver/unreadable.py",
        (
            "    return (\n"
            '        "" if lines in (size, size + 1) else f"its lines have {lines:,} bytes, and '
            '{size:,} {what}"\n'
            "    )\n"
        ),
        '    return "" if lines >= 0 else f"its lines have {lines:,} bytes, and {size:,} {what}"\n',
        "tests/unit/test_reading.py::test_a_file_of_which_the_tasks_saw_other_bytes_than_there_are_is_named",
    ),
    Mutant(
        "key-of-a-quarantined-record",
        _FIRST_ORDINAL,
        "shipper/worker/shipment.py",
        "                first = int(chosen[0])\n                missing = missing[missing > "
        "first]\n",
        "                pass\n",
        "tests/unit/test_task_shipment.py::test_a_record_that_leaves_quarantine_hides_no_chunk_that_was_committed_before",
    ),
    Mutant(
        "java-called-after-a-signal",
        _LAST_CALL,
        "spark_jobs/jvm.py",
        "    except Stopped:\n        raise\n    except BaseException:\n        clean_up()\n",
        "    except BaseException:\n        clean_up()\n",
        "tests/unit/test_java_calls.py::test_a_call_that_a_signal_interrupted_is_the_last_on_its_connection",
    ),
    Mutant(
        "ship-is-collected",
        _LAST_CALL,
        "spark_jobs/sink.py",
        'shipped.write.format("noop").mode("overwrite").save()',
        "shipped.collect()",
        "tests/integration/test_stop.py::test_term_stops_a_run_and_an_orphan_stops_by_itself",
    ),
    Mutant(
        "missing-ledger-is-new",
        _LEDGER_GONE,
        "shipper/ledger/identity.py",
        '            return f"the ledger topic {topic} does not exist"\n',
        "            return None\n",
        "tests/unit/test_ledger_identity.py::test_a_ledger_that_is_gone_or_made_anew_stops_the_run_until_somebody_gives_it_up",
    ),
    Mutant(
        "ledger-made-anew-is-believed",
        _LEDGER_GONE,
        "shipper/ledger/identity.py",
        (
            "        if origin.topic_id and (origin.topic_id, origin.cluster_id) != (\n"
            "            before.topic_id,\n"
            "            before.cluster_id,\n"
            "        ):\n"
        ),
        "        if False:\n",
        "tests/unit/test_ledger_identity.py::test_a_ledger_that_is_gone_or_made_anew_stops_the_run_until_somebody_gives_it_up",
    ),
    Mutant(
        "content-not-compared",
        _RENAMED,
        "shipper/driver/decide.py",
        "sums = {one.sum: one for one in beginnings}",
        "sums = {str(one.content): each for each in beginnings for one in originals.get(file, ())}",
        "tests/unit/test_decide.py::test_another_content_is_another_file",
    ),
    Mutant(
        "two-heirs",
        _RENAMED,
        "shipper/driver/decide.py",
        "if file not in found and match.original.file not in given:",
        "if file not in found:",
        "tests/unit/test_decide.py::test_an_original_has_one_heir_and_another_file_with_its_content_is_shipped",
    ),
    Mutant(
        "header-proves",
        _RENAMED,
        "shipper/driver/decide.py",
        "return content.length >= HEAD_BYTES or original.path in rotated_from(file.path)",
        "return True",
        "tests/unit/test_decide.py::test_a_header_says_nothing_of_a_longer_file_at_another_path",
    ),
    Mutant(
        "copy-beside-its-original",
        _RENAMED,
        "shipper/driver/looking.py",
        "            and not _lies_there(one, chunks.etags.get(one, ()), there[one.path])\n",
        "",
        "tests/unit/test_looking.py::test_an_original_is_whatever_was_delivered_whole_and_is_gone",
    ),
    Mutant(
        "code-not-compared",
        _SAME_CODE,
        "spark_jobs/sink.py",
        "if code != code_digest():",
        "if False:",
        "tests/unit/test_sink_code.py::test_a_task_of_another_shipper_sends_nothing_and_says_why",
    ),
    Mutant(
        "worker-not-in-digest",
        _SAME_CODE,
        "shipper/worker/order.py",
        (
            "_TASK_CODE = (\n"
            '    "cloud_login.py",\n'
            '    "complaints.py",\n'
            '    "error_codes.py",\n'
            '    "errors.py",\n'
            '    "finding.py",\n'
            '    "runtime.py",\n'
            '    "types.py",\n'
            '    "whole_files.py",\n'
            '    "config/*.py",\n'
            '    "kafka/*.py",\n'
            '    "ledger/*.py",\n'
            '    "worker/*.py",\n'
            ")\n"
        ),
        '_TASK_CODE = ("complaints.py", "errors.py", "types.py", "config/*.py", "kafka/*.py", '
        '"ledger/*.py")\n',
        "tests/unit/test_sink_code.py::test_every_module_of_shipper_that_a_task_imports_is_in_the_digest",
    ),
    Mutant(
        "later-result-overwritten",
        _WAKES_UP,
        "shipper/report/run_folder.py",
        "        while (latest := self._latest(name)) != written:\n",
        "        while (latest := mine) != written:\n",
        "tests/unit/test_steps.py::test_the_later_attempts_result_holds_wherever_either_was_paused",
    ),
)
