"""A model that follows a script. It is given the transcript and nothing else, and answers as a real one does: with a
message of text and tool calls, new call ids each time, and a count of the tokens that cost money."""

from __future__ import annotations

import json
import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from examples.refund_desk.plan import Usage

SYSTEM_PROMPT = "You work at the refund desk of a lamp shop. Look before you act, and tell the customer what you did."

Message = dict[str, Any]
Block = dict[str, Any]


def message(role: str, *blocks: Block) -> Message:
    """A message in the shape that transcripts have."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"id": f"msg_{secrets.token_hex(8)}", "role": role, "created_at": now, "blocks": list(blocks)}


def text(said: str) -> Block:
    return {"kind": "text", "text": said}


def tool_calls(answer: Message) -> list[Block]:
    return [block for block in answer["blocks"] if block["kind"] == "tool_call"]


@dataclass(frozen=True)
class Answer:
    message: Message
    usage: Usage


@dataclass(frozen=True)
class ScriptedModel:
    """`pace` is how long it takes to answer, in seconds."""

    pace: float = 0.0

    def answer(self, transcript: list[Message]) -> Answer:
        time.sleep(self.pace)
        reply = message("assistant", *_next_turn(_Facts.of(transcript)))
        return Answer(reply, Usage(_tokens(transcript), _tokens([reply])))


def _tokens(messages: list[Message]) -> int:
    return sum(len(json.dumps(each)) for each in messages) // 4


@dataclass(frozen=True)
class _Facts:
    """What the transcript says: the customer's order, and the answer of each tool so far."""

    order: int
    answers: dict[str, Block]

    @classmethod
    def of(cls, transcript: list[Message]) -> _Facts:
        asked = next(block["text"] for each in transcript if each["role"] == "user" for block in each["blocks"])
        number = re.search(r"\d+", asked)
        blocks = [block for each in transcript for block in each["blocks"]]
        tools = {block["id"]: block["name"] for block in blocks if block["kind"] == "tool_call"}
        answers = {tools[block["call_id"]]: block for block in blocks if block["kind"] == "tool_result"}
        return cls(int(number.group()) if number else 0, answers)

    def parsed(self, tool: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.answers[tool]["content"])
        return found

    @property
    def refunded(self) -> bool:
        return not self.answers["refund_card"]["is_error"]


def _next_turn(facts: _Facts) -> list[Block]:
    turns = {
        "find_order": _look_up,
        "read_policy": _check_policy,
        "find_payment": _find_payment,
        "refund_card": _refund,
        "send_email": _write_mail,
    }
    for tool, turn in turns.items():
        if tool not in facts.answers:
            return turn(facts)
    return _close(facts)


def _call(tool: str, **args: Any) -> Block:
    return {"kind": "tool_call", "id": f"call_{secrets.token_hex(6)}", "name": tool, "args": args}


def _look_up(facts: _Facts) -> list[Block]:
    said = f"I am sorry to hear that. Let me look at order {facts.order}."
    return [text(said), _call("find_order", order=facts.order)]


def _check_policy(facts: _Facts) -> list[Block]:
    found = facts.parsed("find_order")
    said = f"It is a **{found['article']}**, delivered {found['delivered']}. I check what our policy says about damage."
    return [text(said), _call("read_policy")]


def _find_payment(facts: _Facts) -> list[Block]:
    thought = "Damaged on arrival and inside 30 days: a full refund, without return, to the card that was charged."
    said = "The policy allows a full refund. I look up how the order was paid."
    return [{"kind": "reasoning", "text": thought}, text(said), _call("find_payment", order=facts.order)]


def _refund(facts: _Facts) -> list[Block]:
    paid = facts.parsed("find_payment")
    said = f"It was paid with the card {paid['card']}. I send **{paid['amount']} {paid['currency']}** back to it."
    call = _call("refund_card", order=facts.order, amount=paid["amount"], currency=paid["currency"])
    return [text(said), call]


def _write_mail(facts: _Facts) -> list[Block]:
    paid = facts.parsed("find_payment")
    sum_and_card = f"{paid['amount']} {paid['currency']} to the card {paid['card']}"
    if facts.refunded:
        said = "The money is on its way. I tell the customer."
        body = f"We have refunded {sum_and_card}. You may keep the lamp. We are sorry for the trouble."
    else:
        said = "The refund did not go through, and I must not send money twice. I tell the customer as it is."
        body = f"We could not refund {sum_and_card} yet. A colleague takes care of it by hand."
    to = facts.parsed("find_order")["customer"]
    return [text(said), _call("send_email", to=to, subject=f"Your order {facts.order}", body=body)]


def _close(facts: _Facts) -> list[Block]:
    refund = "was refunded" if facts.refunded else "was **not** refunded; a person has to look at it"
    mail = "has not been told" if facts.answers["send_email"]["is_error"] else "has been told by mail"
    return [text(f"Done:\n\n- Order {facts.order} {refund}.\n- The customer {mail}.")]
