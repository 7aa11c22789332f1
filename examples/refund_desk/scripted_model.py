"""Scripted model: it gets only the transcript, and answers like a real one.

An answer is a message of text and tool calls with new call ids, and the number of billed tokens.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from examples.refund_desk.plan_and_budget import Usage

SYSTEM_PROMPT = "You work at the refund desk of a lamp shop. Look before you act, and tell the customer what you did."

Message = dict[str, Any]
Block = dict[str, Any]


def build_message(role: str, *blocks: Block) -> Message:
    """Build a message in the form that transcripts have."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"id": f"msg_{secrets.token_hex(8)}", "role": role, "created_at": now, "blocks": list(blocks)}


def build_text_block(said: str) -> Block:
    return {"kind": "text", "text": said}


def list_tool_calls_of_answer(answer: Message) -> list[Block]:
    return [block for block in answer["blocks"] if block["kind"] == "tool_call"]


@dataclass(frozen=True)
class Answer:
    message: Message
    usage: Usage


@dataclass(frozen=True)
class ScriptedModel:
    """Scripted model; `pace` is the seconds it takes to answer."""

    pace: float = 0.0
    name: str = "refund-script-1"

    def generate_answer(self, transcript: list[Message]) -> Answer:
        time.sleep(self.pace)
        reply = build_message("assistant", *_choose_next_blocks(_TranscriptFacts.from_transcript(transcript)))
        return Answer(reply, Usage(_estimate_tokens(transcript), _estimate_tokens([reply]), self.name))


def _estimate_tokens(messages: list[Message]) -> int:
    return sum(len(json.dumps(message)) for message in messages) // 4


@dataclass(frozen=True)
class _TranscriptFacts:
    """Facts from the transcript: the customer's order, and the answer of each tool so far."""

    order: int
    answers: dict[str, Block]

    @classmethod
    def from_transcript(cls, transcript: list[Message]) -> _TranscriptFacts:
        question = next(
            block["text"] for message in transcript if message["role"] == "user" for block in message["blocks"]
        )
        number = re.search(r"\d+", question)
        blocks = [block for message in transcript for block in message["blocks"]]
        tools = {block["id"]: block["name"] for block in blocks if block["kind"] == "tool_call"}
        answers = {tools[block["call_id"]]: block for block in blocks if block["kind"] == "tool_result"}
        return cls(int(number.group()) if number else 0, answers)

    def parse_tool_answer(self, tool: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.answers[tool]["content"])
        return answer

    @property
    def is_refunded(self) -> bool:
        return not self.answers["refund_card"]["is_error"]


def _choose_next_blocks(facts: _TranscriptFacts) -> list[Block]:
    turns = {
        "find_order": _build_order_lookup_blocks,
        "read_policy": _build_policy_reading_blocks,
        "find_payment": _build_payment_lookup_blocks,
        "refund_card": _build_refund_blocks,
        "send_email": _build_mail_blocks,
    }
    for tool, turn in turns.items():
        if tool not in facts.answers:
            return turn(facts)
    return _build_closing_blocks(facts)


def _build_tool_call(tool: str, **args: Any) -> Block:
    return {"kind": "tool_call", "id": f"call_{secrets.token_hex(6)}", "name": tool, "args": args}


def _build_order_lookup_blocks(facts: _TranscriptFacts) -> list[Block]:
    text = f"I am sorry to hear that. Let me look at order {facts.order}."
    return [build_text_block(text), _build_tool_call("find_order", order=facts.order)]


def _build_policy_reading_blocks(facts: _TranscriptFacts) -> list[Block]:
    order = facts.parse_tool_answer("find_order")
    text = f"It is a **{order['article']}**, delivered {order['delivered']}. I check what our policy says about damage."
    return [build_text_block(text), _build_tool_call("read_policy")]


def _build_payment_lookup_blocks(facts: _TranscriptFacts) -> list[Block]:
    reasoning = "Damaged on arrival and inside 30 days: a full refund, without return, to the card that was charged."
    text = "The policy allows a full refund. I look up how the order was paid."
    return [
        {"kind": "reasoning", "text": reasoning},
        build_text_block(text),
        _build_tool_call("find_payment", order=facts.order),
    ]


def _build_refund_blocks(facts: _TranscriptFacts) -> list[Block]:
    payment = facts.parse_tool_answer("find_payment")
    text = (
        f"It was paid with the card {payment['card']}. I send **{payment['amount']} {payment['currency']}** back to it."
    )
    call = _build_tool_call("refund_card", order=facts.order, amount=payment["amount"], currency=payment["currency"])
    return [build_text_block(text), call]


def _build_mail_blocks(facts: _TranscriptFacts) -> list[Block]:
    payment = facts.parse_tool_answer("find_payment")
    sum_and_card = f"{payment['amount']} {payment['currency']} to the card {payment['card']}"
    if facts.is_refunded:
        text = "The money is on its way. I tell the customer."
        body = f"We have refunded {sum_and_card}. You may keep the lamp. We are sorry for the trouble."
    else:
        text = "The refund did not go through, and I must not send money twice. I tell the customer as it is."
        body = f"We could not refund {sum_and_card} yet. A colleague takes care of it by hand."
    to = facts.parse_tool_answer("find_order")["customer"]
    return [
        build_text_block(text),
        _build_tool_call("send_email", to=to, subject=f"Your order {facts.order}", body=body),
    ]


def _build_closing_blocks(facts: _TranscriptFacts) -> list[Block]:
    refund = "was refunded" if facts.is_refunded else "was **not** refunded; a person has to look at it"
    mail = "has not been told" if facts.answers["send_email"]["is_error"] else "has been told by mail"
    return [build_text_block(f"Done:\n\n- Order {facts.order} {refund}.\n- The customer {mail}.")]
