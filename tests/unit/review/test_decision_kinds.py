"""Each kind of decision that people take is known wherever CONTRIBUTING.md says that a new one belongs."""

from pathlib import Path
from typing import get_args

from checkpoints import SyncCheckpointer
from checkpoints.calls import signed_decisions
from checkpoints.decisions.decide import RULES
from checkpoints.enums import APPROVAL_KINDS, HOOK_KINDS, CallStatus, DecisionKind
from checkpoints.models import ToolCall
from harness_site.api import decisions, request_schemas
from harness_site.mcp_server import tools
from harness_site.review import decision_options

KINDS = set(RULES) - HOOK_KINDS
FORM_STYLES = Path(__file__).parents[3] / "static" / "css" / "decision_card" / "form.css"


def test_signature_of_each_kind_says_which_statuses_may_follow() -> None:
    assert KINDS - set(signed_decisions._STATUSES_AFTER) == set()


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
