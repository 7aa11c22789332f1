"""Labels of statuses, reasons and decisions."""

import pytest

from checkpoints.enums import CallStatus, DecisionKind, RunStatus, SessionStatus
from harness_site.core import status_and_decision_labels

KINDS = (SessionStatus, RunStatus, CallStatus, DecisionKind)
SHAPES = {"ok", "bad", "wait", "run", "unknown", "off"}


@pytest.mark.parametrize("value", sorted({str(value) for kind in KINDS for value in kind}))
def test_every_status_has_a_shape_and_a_label(value: str) -> None:
    assert value in status_and_decision_labels.STATES
    shape, word = status_and_decision_labels.get_status_shape_and_label(value)
    assert shape in SHAPES
    assert word


def test_only_unknown_outcomes_are_hatched() -> None:
    hatched = {value for value, (shape, _) in status_and_decision_labels.STATES.items() if shape == "unknown"}
    assert hatched == {SessionStatus.NEEDS_REVIEW, CallStatus.INTERRUPTED, DecisionKind.PROBE_UNKNOWN}


def test_approved_call_looks_like_a_session_that_can_go_on() -> None:
    approved = CallStatus.APPROVED, CallStatus.RERUN_APPROVED, SessionStatus.READY
    assert {status_and_decision_labels.STATES[status][0] for status in approved} == {"run"}


def test_unknown_status_is_shown_as_stored() -> None:
    assert status_and_decision_labels.get_status_shape_and_label("half_done") == ("off", "Half done")


def test_every_decision_kind_has_a_verb() -> None:
    assert status_and_decision_labels.format_decision_verb(DecisionKind.APPROVE) == "approved"
    assert status_and_decision_labels.format_decision_verb(DecisionKind.PROBE_LANDED) == "found that it happened"


@pytest.mark.parametrize("kind", [DecisionKind.CONFIRM_LANDED, DecisionKind.MARK_FAILED])
def test_recorded_outcome_has_the_same_words_in_each_place(kind: DecisionKind) -> None:
    label = status_and_decision_labels.get_status_shape_and_label(kind)[1].lower()
    assert status_and_decision_labels.format_decision_verb(kind).endswith(f"that {label}")
    assert status_and_decision_labels.get_decision_sentence_template(kind).endswith(f"that {label}")


@pytest.mark.parametrize(
    ("about_question", "verb", "label", "sentence"),
    [
        (False, "responded instead", "Responded instead", "%(name)s responded instead at %(time)s"),
        (True, "answered", "Answered", "%(name)s answered at %(time)s"),
    ],
)
def test_text_in_place_of_a_call_and_answer_to_a_question_have_one_name_each(
    about_question: bool, verb: str, label: str, sentence: str
) -> None:
    kind = DecisionKind.RESPOND
    assert status_and_decision_labels.format_decision_verb(kind, about_question) == verb
    assert status_and_decision_labels.get_decision_sentence_template(kind, about_question) == sentence
    of_decision = status_and_decision_labels.get_decision_shape_and_label(
        kind, about_question=about_question, about_changed_value=False
    )
    of_call = status_and_decision_labels.get_call_status_shape_and_label(
        CallStatus.COMPLETED, is_question=about_question, final_kind=kind
    )
    assert of_decision == of_call == ("ok", label)


def test_question_that_nobody_answered_is_withdrawn_and_a_call_is_discarded() -> None:
    labels = [
        status_and_decision_labels.get_call_status_shape_and_label(
            CallStatus.DISCARDED, is_question=asked, final_kind=None
        )
        for asked in (True, False)
    ]
    assert labels == [("off", "Withdrawn"), ("off", "Discarded")]
