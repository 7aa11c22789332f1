"""Tools of the agent. Two of them have side effects, and one of these can verify its effect later."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from checkpoints import Landed, NotLanded, ToolRegistry, Unknown
from examples.refund_desk.crash import CrashOnce
from examples.refund_desk.shop import POLICY, Shop


def build_refund_tool_registry(shop: Shop, crash: CrashOnce) -> ToolRegistry:
    registry = ToolRegistry()

    @registry.tool(side_effects={"read"})
    def find_order(order: int) -> dict[str, Any]:
        """Look up what was ordered, when it was delivered, and to whom."""
        return shop.build_sample_order(order)

    @registry.tool(side_effects={"read"})
    def read_policy() -> str:
        """Read the rules for refunds."""
        return POLICY

    @registry.tool(side_effects={"read"})
    def find_payment(order: int) -> dict[str, Any]:
        """Look up how an order was paid."""
        return shop.build_sample_payment(order)

    def cannot_tell_if_refunded(args: dict[str, Any]) -> Unknown:
        return Unknown("the card processor shows refunds only after the nightly settlement")

    @registry.tool(
        side_effects={"mutate"},
        verify=cannot_tell_if_refunded,
        sentence="Refund {amount} {currency} to the card ending 4242 for order {order}",
    )
    def refund_card(order: int, amount: Decimal, currency: str) -> str:
        """Send money back to the card an order was paid with."""
        with crash.crash_after_first_effect("refund_card"):
            reference = shop.refund_payment(order, amount, currency)
        return f"Refunded {amount} {currency} to the card ending 4242, reference {reference}."

    def was_sent(args: dict[str, Any]) -> Landed | NotLanded:
        return Landed(_describe_sent_mail(args["to"])) if shop.has_sent_mail(args) else NotLanded()

    @registry.tool(side_effects={"mutate"}, verify=was_sent, sentence="Send the mail “{subject}” to {to}")
    def send_email(to: str, subject: str, body: str) -> str:
        """Write an e-mail to a customer."""
        with crash.crash_after_first_effect("send_email"):
            shop.send_mail({"to": to, "subject": subject, "body": body})
        return _describe_sent_mail(to)

    return registry


def _describe_sent_mail(to: str) -> str:
    return f"Sent to {to}."
