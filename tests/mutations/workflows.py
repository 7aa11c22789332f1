"""Mutations of lines that guarantees about workflows, runs, files and write-behind depend on."""

from __future__ import annotations

from tests.mutations.mutations import Mutation

STEPS = "tests/integration/checkpoints/workflows/test_steps.py"
PHASES = "tests/integration/checkpoints/loop_state/test_phases.py"
BEHIND = "tests/integration/checkpoints/write_behind"

WORKFLOW_MUTATIONS = [
    Mutation(
        "a step that happened cannot become another",
        "checkpoints/workflows/step_rows.py",
        "    if live is not None:\n",
        "    if False:\n",
        f"{STEPS}::test_step_with_an_unknown_outcome_cannot_be_changed",
    ),
    Mutation(
        "a step is asked for once in a pass",
        "checkpoints/workflows/workflow.py",
        "            if step_id in self._begun:\n",
        "            if False:\n",
        f"{STEPS}::test_step_runs_once_in_a_pass",
    ),
    Mutation(
        "a changed result is not replayed",
        "checkpoints/calls/require_unaltered_call.py",
        'if result_digest in {digests.digest_outcome(result, error_message), digests.digest_outcome(result, "")}:',
        "if True:",
        f"{PHASES}::test_changed_result_is_not_replayed",
    ),
    Mutation(
        "an answer whose tools have run is not pending",
        "checkpoints/loop_state/snapshot_and_phase_payload_codec.py",
        "return all(phase in PHASES_KEEPING_ANSWER_PENDING for phase in phases)",
        "return True",
        f"{PHASES}::test_answer_is_pending_until_its_tools_have_run",
    ),
    Mutation(
        "retention keeps the snapshot that still holds",
        "checkpoints/sessions/prune_versions_and_delete_sessions.py",
        "if snapshot_version is None or number < snapshot_version]",
        "if True]",
        f"{PHASES}::test_snapshot_is_kept_while_a_later_version_needs_it",
    ),
    Mutation(
        "an intent writes what comes before it",
        "checkpoints/store/look_up_and_lock_rows.py",
        "    store.flush_pending_writes(session_id)\n",
        "",
        "tests/integration/checkpoints/write_behind/test_barriers.py::test_tool_does_not_run_on_a_version_that_cannot_be_written",
    ),
    Mutation(
        "the queue is bounded",
        "checkpoints/versions/writer_thread.py",
        "if replaced_entry is not None or self._count_entries() < self.queue:",
        "if True:",
        "tests/integration/checkpoints/write_behind/test_write_failures.py::test_queue_that_stays_full_refuses_versions",
    ),
    Mutation(
        "a file is proved before it is imported",
        "checkpoints/archive/session_file_reader_and_writer.py",
        '        if last != to_canonical_json({"digest"',
        '        if False and last != to_canonical_json({"digest"',
        "tests/integration/checkpoints/archive/test_refused_files.py::test_every_flipped_byte_is_refused",
    ),
    Mutation(
        "what was running is undecided where it is imported",
        "checkpoints/archive/session_import.py",
        "            _mark_call_undecided_or_discarded_if_open(row)\n",
        "            pass\n",
        "tests/integration/checkpoints/archive/test_export_and_import.py::test_running_call_is_undecided_after_import",
    ),
    Mutation(
        "what a dead writer left is removed",
        "checkpoints/archive/atomic_file.py",
        "return process_identity_and_liveness.is_process_known_dead(",
        "return False and process_identity_and_liveness.is_process_known_dead(",
        "tests/integration/checkpoints/archive/test_atomic_file.py::test_killed_writer_leaves_the_old_file_or_the_new_one",
    ),
]
