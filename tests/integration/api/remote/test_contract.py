"""The library's own tests of sessions, versions and calls, run by a client over HTTP."""

from tests.integration.checkpoints.calls.test_call_log import *  # noqa: F403
from tests.integration.checkpoints.loop_state.test_phases import (
    test_light_phase_keeps_the_snapshot_and_adds_details as test_light_phase_keeps_the_snapshot_and_adds_details,
)
from tests.integration.checkpoints.loop_state.test_phases import (
    test_snapshot_is_restored_equal as test_snapshot_is_restored_equal,
)
from tests.integration.checkpoints.peers.test_resume_task import (
    test_another_process_takes_the_complete_task as test_another_process_takes_the_complete_task,
)
from tests.integration.checkpoints.resume.test_gate import *  # noqa: F403
from tests.integration.checkpoints.sessions.test_session_handle import *  # noqa: F403
from tests.integration.checkpoints.tools.test_dispatch import *  # noqa: F403
from tests.integration.checkpoints.tools.test_foreign_tool_guard import started as started  # fixture
from tests.integration.checkpoints.tools.test_foreign_tool_guard import (
    test_open_call_keeps_its_key_in_later_steps_and_forks as test_open_call_keeps_its_key_in_later_steps_and_forks,
)
from tests.integration.checkpoints.tools.test_foreign_tool_guard import (
    test_policy_call_keeps_the_rejection_of_an_open_call as test_policy_call_keeps_the_rejection_of_an_open_call,
)
from tests.integration.checkpoints.tools.test_outcomes import (
    test_ambiguous_error_needs_review_and_never_runs_again as test_ambiguous_error_needs_review_and_never_runs_again,
)
from tests.integration.checkpoints.versions.test_append import *  # noqa: F403
from tests.integration.checkpoints.workflows.test_steps import *  # noqa: F403
from tests.integration.checkpoints.workflows.test_unknown_steps import *  # noqa: F403

#: Tests that need direct access to the database.
_NEED_A_DATABASE = (
    "test_append_after_a_takeover_is_refused",
    "test_dispatch_of_a_lost_run_runs_nothing",
    "test_intent_of_a_lost_run_is_refused",
    "test_interrupted_call_needs_review",
    "test_mutating_call_is_blocked_by_the_review_of_another",
    "test_other_mutating_call_is_blocked_by_the_review",
    "test_other_workspace_finds_nothing",
    "test_reading_call_is_not_blocked_by_the_review",
    "test_reading_call_runs_while_another_is_undecided",
    "test_hook_of_the_step_is_called_before_a_person_decides",
    "test_verification_of_a_step_can_be_repeated",
    "test_release_writes_queued_versions_and_interrupts_running_calls",
    "test_release_without_ownership_does_nothing",
    "test_call_of_an_earlier_run_is_replayed",
    "test_run_that_lost_its_session_runs_no_step",
    "test_lost_session_is_reported_and_not_changed",
    "test_single_side_effect_may_be_a_string",
    "test_step_of_a_lost_run_needs_a_decision",
    "test_reading_step_runs_again_without_a_decision",
    "test_undecided_call_refuses_the_run_and_releases_the_session",
    "test_handle_continues_after_versions_saved_by_the_client",
    "test_omitted_values_are_kept_for_the_next_run",
    "test_workspaces_do_not_share_calls",
)
for _name in _NEED_A_DATABASE:
    del globals()[_name]
