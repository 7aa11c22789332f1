"""Each kind of decision that people take is known wherever CONTRIBUTING.md says that a new one belongs."""

from checkpoints.calls import signed_decisions
from checkpoints.decisions.decide import RULES
from checkpoints.enums import APPROVAL_KINDS, HOOK_KINDS, CallStatus, DecisionKind
from harness_site.api import decisions
from harness_site.review import decision_options

KINDS = set(RULES) - HOOK_KINDS


def test_signature_of_each_kind_says_which_statuses_may_follow() -> None:
    assert KINDS - set(signed_decisions._STATUSES_AFTER) == set()


def test_each_kind_about_a_call_that_awaits_approval_is_listed() -> None:
    assert {kind for kind in KINDS if RULES[kind].before == CallStatus.AWAITING_APPROVAL} == set(APPROVAL_KINDS)


def test_programs_can_take_each_kind_of_decision() -> None:
    assert set(decisions._KINDS.values()) == KINDS | {DecisionKind.WITHDRAW}


def test_card_offers_each_kind_of_decision() -> None:
    assert {option.kind for option in (*decision_options.OUTCOMES, *decision_options.APPROVALS)} == KINDS
