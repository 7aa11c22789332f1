"""Requests to webhooks, received by real servers in other processes."""

import hashlib
import hmac
import json
from datetime import timedelta

import pytest

from checkpoints.db import clock
from harness_site.notifications.models import Delivery, WebhookFormat
from harness_site.notifications.send_due_deliveries import DeliveryRound, send_due_deliveries
from tests.integration.notifications.conftest import (
    Start,
    interrupted,
    make_webhook,
    told,
)
from tests.support.site_process import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]


class TestWebhook:
    def test_request_is_signed_and_complete(self, web: Start) -> None:
        receiver = web()
        make_webhook(receiver.address)
        call = interrupted(
            sentence="Refund 40.00 EUR",
            interrupted_at=clock.now() - timedelta(minutes=5),
            decide_within=timedelta(hours=4),
        )
        assert told() == DeliveryRound(sent=1)
        (got,) = receiver.messages
        delivery = Delivery.objects.get()
        headers = got["headers"]
        assert got["path"] == "/in?key=k"
        assert (headers["Harness-Event"], headers["Harness-Delivery"]) == ("interrupted", str(delivery.pk))
        signed = f"{headers['Harness-Timestamp']}.{got['body']}".encode()
        expected = hmac.new(b"whsec_test", signed, hashlib.sha256).hexdigest()
        assert headers["Harness-Signature"] == f"v1={expected}"
        body = json.loads(got["body"])
        link = f"https://harness.example/review/calls/{call.pk}/"
        assert (body["delivery"], body["event"], body["count"]) == (str(delivery.pk), "interrupted", 1)
        assert (body["headline"], body["link"]) == ("Needs a decision: Refund 40.00 EUR", link)
        (told_,) = body["calls"]
        assert (told_["call"], told_["call_id"], told_["tool"]) == (call.pk, "call_9", "refund_card")
        assert (told_["session_id"], told_["link"]) == (call.session.session_id, link)
        assert told_["deadline"] > told_["since"]
        assert (delivery.answer, delivery.took is not None) == (200, True)

    def test_slack_format(self, web: Start) -> None:
        receiver = web()
        make_webhook(receiver.address, format=WebhookFormat.SLACK)
        interrupted(sentence="Pay <!channel> & <http://evil.example|bank>")
        told()
        body = json.loads(receiver.messages[0]["body"])
        assert body["text"] == "Needs a decision: Pay &lt;!channel&gt; &amp; &lt;http://evil.example|bank&gt;"
        assert [block["type"] for block in body["blocks"]] == ["section", "section", "actions"]
        assert body["blocks"][2]["elements"][0]["url"].startswith("https://harness.example/review/calls/")
        assert "<http://evil" not in json.dumps(body)

    def test_secrets_are_masked(self, web: Start) -> None:
        receiver = web()
        make_webhook(receiver.address)
        interrupted(args={"api_key": "s3cr3t-value", "order": 17})
        told()
        assert "s3cr3t-value" not in receiver.messages[0]["body"]

    @pytest.mark.parametrize("status", [302, 400, 500])
    def test_other_status_than_2xx_is_a_failure(self, web: Start, status: int) -> None:
        receiver = web(status=status)
        make_webhook(receiver.address)
        interrupted()
        assert told() == DeliveryRound(failed=1)
        # A redirect is not followed.
        assert [got["path"] for got in receiver.messages] == ["/in?key=k"]
        delivery = Delivery.objects.get()
        assert (delivery.answer, delivery.problem) == (status, "The address answered with status %(status)s.")
        assert delivery.problem_values == {"status": str(status)}

    def test_paused_webhook_keeps_its_messages(self, web: Start) -> None:
        receiver = web()
        webhook = make_webhook(receiver.address, paused_at=clock.now())
        interrupted()
        assert told() == DeliveryRound()
        webhook.paused_at = None
        webhook.save()
        assert send_due_deliveries() == DeliveryRound(sent=1)

    def test_unreachable_webhook_does_not_delay_others(self, web: Start) -> None:
        receiver = web()
        make_webhook(f"http://127.0.0.1:{free_port()}/", name="away")
        make_webhook(receiver.address)
        interrupted()
        interrupted("send_mail")
        assert told() == DeliveryRound(sent=2, failed=1)
