"""The lines that carry the promise about workflows, runs, files, and what is written behind."""

from __future__ import annotations

from tests.mutations.mutations import Mutation

CHECKPOINTS = "tests/integration/checkpoints"
STEPS = f"{CHECKPOINTS}/workflows/test_steps.py"
PHASES = f"{CHECKPOINTS}/runs/test_phases.py"
FILES = f"{CHECKPOINTS}/files"
BEHIND = f"{CHECKPOINTS}/write_behind"

WORKFLOW_MUTATIONS = [
    Mutation(
        "a step that happened cannot become another",
        "checkpoints/workflows/steps.py",
        "    if live is not None:\n",
        "    if False:\n",
        f"{STEPS}::test_step_that_may_have_happened_cannot_become_another",
    ),
    Mutation(
        "a step is asked for once in a pass",
        "checkpoints/workflows/journal.py",
        "            if step_id in self._begun:\n",
        "            if False:\n",
        f"{STEPS}::test_step_is_asked_for_once_in_a_pass",
    ),
    Mutation(
        "a changed result is not replayed",
        "checkpoints/saving/calls.py",
        "if text is not None and digest != digests.text_digest(text):",
        "if False:",
        f"{PHASES}::test_changed_result_is_not_replayed",
    ),
    Mutation(
        "an answer whose tools have run is not pending",
        "checkpoints/runs/payload.py",
        "return all(phase in STILL_PENDING for phase in phases)",
        "return True",
        f"{PHASES}::test_answer_is_pending_until_its_tools_have_run",
    ),
    Mutation(
        "retention keeps the snapshot that still holds",
        "checkpoints/saving/pruning.py",
        "if kept is None or number < kept]",
        "if True]",
        f"{PHASES}::test_snapshot_stays_while_a_later_version_goes_on_from_it",
    ),
    Mutation(
        "an intent writes what comes before it",
        "checkpoints/saving/lookup.py",
        "    store.flush(session_id)\n",
        "",
        f"{BEHIND}/test_barriers.py::test_tool_does_not_run_on_a_version_that_cannot_be_written",
    ),
    Mutation(
        "the queue is bounded",
        "checkpoints/saving/writer.py",
        "if replaced is not None or self._count() < self.queue:",
        "if True:",
        f"{BEHIND}/test_trouble.py::test_queue_that_stays_full_refuses_what_it_cannot_take",
    ),
    Mutation(
        "a file is proved before it is imported",
        "checkpoints/files/format.py",
        '        if last != canonical({"digest"',
        '        if False and last != canonical({"digest"',
        f"{FILES}/test_refused_files.py::test_every_flipped_byte_is_refused",
    ),
    Mutation(
        "what was running is undecided where it is imported",
        "checkpoints/files/importing.py",
        "            _unsettle(row)\n",
        "            pass\n",
        f"{FILES}/test_files.py::test_call_that_was_running_is_undecided_here",
    ),
    Mutation(
        "what a dead writer left is removed",
        "checkpoints/files/atomic.py",
        "return process.known_dead(",
        "return False and process.known_dead(",
        f"{CHECKPOINTS}/files/test_atomic.py::test_killed_writer_leaves_the_old_file_or_the_new_one",
    ),
]
