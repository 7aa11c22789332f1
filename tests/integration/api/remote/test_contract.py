"""The library's own tests of sessions, versions and calls, run by a client over HTTP."""

from tests.integration.checkpoints.calls.test_call_log import *  # noqa: F403
from tests.integration.checkpoints.loop_state.test_phases import (
    test_light_phase_keeps_everything_and_says_only_its_own as test_light_phase_keeps_everything_and_says_only_its_own,
)
from tests.integration.checkpoints.loop_state.test_phases import (
    test_snapshot_comes_back_as_it_was as test_snapshot_comes_back_as_it_was,
)
from tests.integration.checkpoints.peers.test_resume_task import (
    test_another_instance_goes_on_with_all_it_needs as test_another_instance_goes_on_with_all_it_needs,
)
from tests.integration.checkpoints.resume.test_gate import *  # noqa: F403
from tests.integration.checkpoints.sessions.test_session_handle import *  # noqa: F403
from tests.integration.checkpoints.tools.test_dispatch import *  # noqa: F403
from tests.integration.checkpoints.versions.test_append import *  # noqa: F403
from tests.integration.checkpoints.workflows.test_steps import *  # noqa: F403
from tests.integration.checkpoints.workflows.test_unknown_steps import *  # noqa: F403

#: Tests that prepare their situation inside of the library, or that use what exists only beside a database.
_NEED_A_DATABASE = (
    "test_append_after_a_takeover_is_refused",
    "test_dispatch_of_a_lost_run_runs_nothing",
    "test_intent_of_a_lost_run_is_refused",
    "test_interrupted_call_needs_review",
    "test_mutating_call_waits_for_the_review_of_another",
    "test_other_mutating_call_waits_for_the_review_too",
    "test_other_workspace_finds_nothing",
    "test_reading_call_does_not_wait_for_the_review",
    "test_reading_call_runs_while_another_is_undecided",
    "test_hook_of_the_step_is_asked_before_a_person",
    "test_probe_of_a_step_can_be_asked_for_again",
    "test_release_writes_what_waits_and_interrupts_what_runs",
    "test_releasing_what_is_not_owned_does_nothing",
    "test_replay_survives_the_run",
    "test_run_that_lost_its_session_runs_no_step",
    "test_session_lost_meanwhile_is_told_and_left_alone",
    "test_single_side_effect_may_be_a_word",
    "test_step_of_a_lost_run_is_asked_about",
    "test_step_that_only_reads_runs_again_by_itself",
    "test_undecided_call_holds_the_run_and_releases_the_session",
    "test_versions_saved_beside_the_handle_are_gone_on_from",
    "test_what_is_left_out_stays_for_the_run_that_goes_on",
    "test_workspaces_do_not_share_calls",
)
for _name in _NEED_A_DATABASE:
    del globals()[_name]
