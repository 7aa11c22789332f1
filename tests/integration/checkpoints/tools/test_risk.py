"""The risk of a tool: declared or derived, and stored with each of its calls."""

import pytest

from checkpoints import SyncCheckpointer, Tool, ToolRegistry, tool
from checkpoints.enums import Risk
from checkpoints.exceptions import InvalidInput
from checkpoints.models import ToolCall
from tests.integration.checkpoints.session_setups import start_session


def nothing() -> str:
    return "done"


@pytest.mark.parametrize(
    ("options", "risk"),
    [
        ({}, "medium"),
        ({"side_effects": {"read", "mutate"}}, "medium"),
        ({"side_effects": {"write"}}, "medium"),
        ({"side_effects": {"mutate"}, "risk": "low"}, "low"),
        ({"side_effects": {"mutate"}, "risk": "high"}, "high"),
        ({"side_effects": {"write"}, "risk": Risk.HIGH}, "high"),
    ],
    ids=["undeclared", "mutating", "writing", "mutating but low", "mutating and high", "writing but high"],
)
def test_call_stores_the_risk_of_its_tool(cp: SyncCheckpointer, options: dict[str, object], risk: str) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")
    registry.tool(**options)(nothing)  # type: ignore[call-overload]
    registry.dispatch("nothing", {}, "call_1")
    assert ToolCall.objects.get().risk == risk


def test_manually_logged_call_has_the_risk_of_its_side_effects(cp: SyncCheckpointer) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "note", {}, "key", side_effects={"write"})
    assert ToolCall.objects.get().risk == "medium"


def test_tool_instance_may_declare_any_risk(cp: SyncCheckpointer) -> None:
    ToolRegistry([Tool("nothing", nothing, risk=Risk.MEDIUM)], start_session(cp), "s").dispatch("nothing", {}, "call_1")
    assert ToolCall.objects.get().risk == "medium"


def test_unknown_risk_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"'huge' is not a risk\."):
        tool(risk="huge")(nothing)
