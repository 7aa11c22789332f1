"""Versions of the format of session files, and the upgrade of rows of older files."""

from __future__ import annotations

from typing import Any

from checkpoints.enums import CallStatus, CostBasis, get_default_risk
from checkpoints.formats.canonical_json import decode_json_string_or_return_text
from checkpoints.formats.storable_text import replace_unstorable_characters

#: Version of the format that added the risk of a call.
RISK_SINCE_VERSION = 2
#: Version of the format that added the key policy of a call, and the version that answered the call.
ANSWERS_SINCE_VERSION = 3
#: Version of the format that added the sentence template of a call, and the gate's time, the source of the cost, the
#: parent and the lack of times of a session.
TEMPLATES_SINCE_VERSION = 4
#: Version of the format that added the signature of a decision.
SIGNATURES_SINCE_VERSION = 6
#: Version of the format that added the order of the arguments of a call.
ORDER_SINCE_VERSION = 7
#: Version of the format whose chains have one digest for each message.
CHAINS_SINCE_VERSION = 8
#: Version of the format that added the decisions that the framework of a call accepts.
ALLOWED_SINCE_VERSION = 9
#: Version of the format that added the values that are stored with a write of a framework.
CONTENTS_SINCE_VERSION = 10
#: Version of the format that added the message of the error that a tool raised; before, it was the result.
ERRORS_SINCE_VERSION = 11


def upgrade_row_values(kind: str, values: object, version: int) -> object:
    """Convert the values of a row in a file of an older `version` to those of the current version."""
    if not isinstance(values, dict):
        return values
    if kind == "session" and version < TEMPLATES_SINCE_VERSION:
        added = {"cost_basis": CostBasis.STATED.value, "parent_session_id": "", "has_times": True}
        return {"gate_opened_at": None, **added, **values}
    if kind == "decision" and version < SIGNATURES_SINCE_VERSION:
        return {"signed_terms": None, "signature": None, **values}
    if kind == "framework_write" and version < CONTENTS_SINCE_VERSION:
        return {"type": "", "content": None, "compressed": False, **values}
    return _upgrade_call_values(values, version) if kind == "tool_call" else values


def _upgrade_call_values(values: dict[str, Any], version: int) -> dict[str, Any]:
    if version < ERRORS_SINCE_VERSION:
        values = {"error_message": "", **values}
        if values.get("status") == CallStatus.INTERRUPTED and isinstance(values.get("result"), str):
            message = replace_unstorable_characters(decode_json_string_or_return_text(values["result"]))
            values |= {"error_message": message, "result": None, "result_digest": ""}
    if version < ALLOWED_SINCE_VERSION:
        values = {"allowed_decisions": "", **values}
    if version < ORDER_SINCE_VERSION:
        values = {"args_order": "", **values}
    if version < TEMPLATES_SINCE_VERSION:
        values = {"sentence_template": "", **values}
    if version < RISK_SINCE_VERSION:
        values = {"risk": get_default_risk(str(values.get("side_effects")).split(",")).value, **values}
    if version < ANSWERS_SINCE_VERSION:
        values = {"key_policy": "", "asked_args_digest": "", "answered_version": None, **values}
    return values
