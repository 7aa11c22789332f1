"""Each kind of decision that people take is known wherever CONTRIBUTING.md says that a new one belongs."""

from pathlib import Path
from typing import get_args

from checkpoints import SyncCheckpointer
from checkpoints.calls import verify_calls_against_decisions
from checkpoints.decisions.decide import RULES
from checkpoints.enums import APPROVAL_KINDS, HOOK_KINDS, CallStatus, DecisionKind
from checkpoints.models import ToolCall
from harness_site.api import decisions, request_schemas
from harness_site.audit import decision_consequences
from harness_site.core import status_and_decision_labels
from harness_site.mcp_server import tools
from harness_site.review import decision_card_headings, decision_options

KINDS = set(RULES) - HOOK_KINDS
FORM_STYLES = Path(__file__).parents[3] / "static" / "css" / "decision_card" / "form.css"


def test_signature_of_each_kind_says_which_statuses_may_follow() -> None:
    assert KINDS - set(verify_calls_against_decisions._STATUSES_AFTER) == set()


def test_each_kind_about_a_call_that_awaits_approval_is_listed() -> None:
    assert {kind for kind in KINDS if RULES[kind].before == CallStatus.AWAITING_APPROVAL} == set(APPROVAL_KINDS)


def test_http_api_takes_each_kind_of_decision() -> None:
    named = set(get_args(request_schemas.Decide.model_fields["kind"].annotation))
    assert named == {*KINDS, DecisionKind.WITHDRAW, "verify"}
    for kind in named - {"verify"}:
        body = request_schemas.Decide.model_validate({"kind": kind, "new_args": {}})
        assert callable(decisions._choose_decision_method(SyncCheckpointer, body, ToolCall(args="{}")))  # type: ignore[arg-type]


def test_mcp_tool_takes_each_kind_of_decision() -> None:
    assert set(get_args(tools.Decide.model_fields["kind"].annotation)) == {*KINDS, DecisionKind.WITHDRAW}


def test_style_sheet_shows_the_effect_of_each_kind_that_is_chosen() -> None:
    styles = FORM_STYLES.read_text()
    assert [kind for kind in KINDS if f'[value="{kind}"]:checked) .consequence.{kind}' not in styles] == []


def test_card_offers_each_kind_of_decision() -> None:
    assert {option.kind for option in (*decision_options.OUTCOMES, *decision_options.APPROVALS)} == KINDS


def test_card_has_a_heading_for_each_decision_that_ends_the_wait() -> None:
    ending = {kind for kind, rule in RULES.items() if rule.after != rule.before}
    assert ending == {*decision_card_headings._DECIDED, DecisionKind.APPROVE}


def test_audit_trail_says_what_each_decision_means_for_its_call() -> None:
    others = {DecisionKind.PROBE_UNKNOWN, DecisionKind.WITHDRAW}
    assert set(decision_consequences._CONSEQUENCES) == {*RULES, *others}


def test_card_audit_trail_and_lists_say_what_became_of_an_approved_call_in_the_same_statuses() -> None:
    """A heading, a sentence about that time and a chip differ in their words, not in what they tell apart."""
    statuses = verify_calls_against_decisions._STATUSES_AFTER[DecisionKind.APPROVE] - {CallStatus.DISCARDED}
    told_in_trail = {status for kind, status in decision_consequences._OUTCOMES if kind == DecisionKind.APPROVE}
    assert set(decision_card_headings._APPROVED) == statuses
    assert told_in_trail - {CallStatus.INTERRUPTED} == statuses  # of an interrupted call, the card asks the outcome
    assert {
        status for kind, status in status_and_decision_labels._RUN_SINCE if kind == DecisionKind.APPROVE
    } == statuses


def test_audit_trail_and_lists_say_what_became_of_one_more_run_in_the_same_statuses() -> None:
    statuses = verify_calls_against_decisions._STATUSES_AFTER[DecisionKind.APPROVE_RERUN] - {CallStatus.DISCARDED}
    told_in_trail = {status for kind, status in decision_consequences._OUTCOMES if kind == DecisionKind.APPROVE_RERUN}
    told_in_lists = {
        status for kind, status in status_and_decision_labels._RUN_SINCE if kind == DecisionKind.APPROVE_RERUN
    }
    of_next_attempt = set(decision_card_headings._RUN_ONCE_MORE)
    assert told_in_trail == statuses
    assert told_in_lists == statuses | of_next_attempt
