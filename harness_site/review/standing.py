"""How a call stands: everything the card shows, gathered once."""

from typing import Any

from checkpoints.enums import CallStatus
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import ToolCall
from checkpoints.queries import conversation, inbox
from harness_site import wording
from harness_site.rendering.saying import safe_link
from harness_site.review import prospect
from harness_site.review.forms import ANSWERS
from harness_site.review.trace import trace

#: Messages of the transcript that are shown beside a call.
AROUND = 4


def context(call: ToolCall) -> dict[str, Any]:
    known = inbox.evidence(call)
    undecided = call.status == CallStatus.INTERRUPTED
    return {
        "call": call,
        "session": call.session,
        "args": wording.parsed(call.args),
        "undecided": undecided,
        "known": known,
        "decision": known.deciding,
        "cited": _cited(known),
        "events": trace(call, known),
        "around": conversation.around(call.session, call.step, size=AROUND),
        "driver": prospect.driver(call.session),
        "waiting_run": prospect.waiting_run(call.session),
        "next_call": None if undecided else inbox.longest_waiting(call.workspace_id),
    }


def suggested(shown: dict[str, Any]) -> dict[str, Any]:
    """What the form begins with: a late result that arrived is most likely what the call returned."""
    late = [one for one in shown["known"].late_results if one.success]
    return {"revision": shown["call"].revision, "result": late[-1].result_text if late else ""}


def _cited(known: inbox.Evidence) -> dict[str, Any] | None:
    """The evidence of the decision: a `link` that may be followed, a `text`, and the `rest` of what was given."""
    if known.deciding is None or known.deciding.evidence is None:
        return None
    given = wording.parsed(known.deciding.evidence)
    if not isinstance(given, dict):
        return {"rest": given}
    link = safe_link(given.get("link"))
    text = given.get("text") if isinstance(given.get("text"), str) else ""
    said = {name for name, kept in (("link", link), ("text", text)) if kept}
    return {"link": link, "text": text, "rest": {name: value for name, value in given.items() if name not in said}}


def answers(call: ToolCall) -> list[dict[str, str]]:
    """The three answers, each with what it will cause."""
    try:
        causes = prospect.prospect(call)
    except CheckpointsError as error:
        causes = dict.fromkeys(ANSWERS, f"What follows cannot be foreseen: {error.detail}")
    return [
        {"kind": kind, "name": name, "does": does, "button": button, "then": causes[kind]}
        for kind, (name, does, button) in ANSWERS.items()
    ]
