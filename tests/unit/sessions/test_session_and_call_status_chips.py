from checkpoints.sessions.display_status import DisplayStatus
from harness_site.sessions import session_and_call_status_chips


def test_paused_session_shows_the_number_of_pending_calls() -> None:
    assert session_and_call_status_chips.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 1) == (
        "unknown",
        "Paused — 1 call needs a decision",
    )
    assert session_and_call_status_chips.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 3) == (
        "unknown",
        "Paused — 3 calls need a decision",
    )
    assert session_and_call_status_chips.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 0) == (
        "unknown",
        "Paused for a decision",
    )
    assert session_and_call_status_chips.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 1, 1) == (
        "wait",
        "Paused — 1 call awaits approval",
    )
    assert session_and_call_status_chips.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 2, 2) == (
        "wait",
        "Paused — 2 calls await approval",
    )
    assert session_and_call_status_chips.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 1, 1, 1) == (
        "wait",
        "Paused — 1 question awaits an answer",
    )
    assert session_and_call_status_chips.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 2, 2, 1) == (
        "wait",
        "Paused — 2 calls need a decision",
    )
    assert session_and_call_status_chips.get_session_status_shape_and_label(DisplayStatus.NEEDS_REVIEW, 3, 2) == (
        "unknown",
        "Paused — 3 calls need a decision",
    )


def test_session_without_a_process_is_labelled() -> None:
    assert session_and_call_status_chips.get_session_status_shape_and_label(DisplayStatus.STALLED, 0) == (
        "wait",
        "Orphaned",
    )
