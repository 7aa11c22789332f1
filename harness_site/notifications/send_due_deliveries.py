"""Sending of due deliveries from the outbox, by any number of processes.

A process claims a delivery by postponing its due time. If the process dies, the delivery becomes due again; it may then
arrive twice, with the same id, but is never lost. Failed deliveries are retried with growing delays and finally given
up, which the log shows.
"""

from __future__ import annotations

import http.client
import logging
import random
import smtplib
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext_noop

from checkpoints.db import clock
from checkpoints.enums import AuditKind
from harness_site.accounts.models import Membership
from harness_site.core.translatable_stored_sentence import StoredSentence
from harness_site.notifications import (
    compose_and_send_email,
    create_change_or_pause_webhooks,
    delivery_error_text,
    safe_http,
    webhook_requests,
)
from harness_site.notifications.load_notice_message_content import NoticeMessage, load_and_build_notice_message
from harness_site.notifications.models import Delivery, DeliveryStatus, Event, Notice, Webhook
from harness_site.notifications.recipients import has_role_for_event
from harness_site.send_email import NoMailServer

logger = logging.getLogger(__name__)

#: Time until a claimed delivery is due again if the process that claimed it dies.
CLAIM: Final = timedelta(minutes=2)
#: Delay after the first failed attempt; doubled after each further one, up to the maximum.
AGAIN: Final = timedelta(seconds=5)
LONGEST_PAUSE: Final = timedelta(hours=1)
#: With these delays, about a day.
MOST_ATTEMPTS: Final = 30
#: Maximum number of deliveries per round.
LIMIT: Final = 100
_chance = random.SystemRandom()


@dataclass(frozen=True)
class DeliveryOutcome:
    """Outcome of one attempt.

    `problem` is None if the message was sent; `away` means that other messages to this receiver will fail, too.
    """

    problem: StoredSentence | None = None
    answer: int | None = None
    away: bool = False
    not_needed: bool = False


@dataclass(frozen=True)
class DeliveryRound:
    """Numbers of deliveries that were sent, failed for now, given up, or not needed."""

    sent: int = 0
    failed: int = 0
    given_up: int = 0
    not_needed: int = 0

    def __add__(self, other: DeliveryRound) -> DeliveryRound:
        return DeliveryRound(
            self.sent + other.sent,
            self.failed + other.failed,
            self.given_up + other.given_up,
            self.not_needed + other.not_needed,
        )


def send_due_deliveries(*, limit: int = LIMIT) -> DeliveryRound:
    """Send the due deliveries, one at a time, at most `limit`."""
    totals = DeliveryRound()
    for _ in range(limit):
        delivery = _claim_due_delivery()
        if delivery is None:
            break
        totals += attempt_delivery_and_record_outcome(delivery)
    return totals


def send_webhook_test_message(webhook: Webhook, *, by: Membership, request: HttpRequest) -> DeliveryRound:
    """Send a test message at once, with a single attempt, and return its outcome, which the log shows as well."""
    now = clock.read_database_time("default")
    with transaction.atomic():
        notice = Notice.objects.create(workspace_id=webhook.workspace_id, event=Event.TEST, send_at=now, closed=True)
        delivery = Delivery.objects.create(
            notice=notice, webhook=webhook, recipient=webhook.host, attempts=1, due_at=now + CLAIM
        )
        create_change_or_pause_webhooks.record_webhook_event(by, AuditKind.WEBHOOK_TESTED, webhook, request)
    return attempt_delivery_and_record_outcome(delivery, max_attempts=1)


def attempt_delivery_and_record_outcome(delivery: Delivery, *, max_attempts: int = MOST_ATTEMPTS) -> DeliveryRound:
    """Try to send a claimed delivery, and record the outcome."""
    started_at = time.monotonic()
    outcome = _send_and_get_outcome(delivery)
    duration = timedelta(seconds=time.monotonic() - started_at)
    status = _get_next_status(delivery, outcome, max_attempts)
    pause = _compute_retry_delay(delivery.attempts)
    problem = outcome.problem or StoredSentence("")
    changes: dict[str, Any] = {"status": status, "answer": outcome.answer, "took": duration}
    changes |= {"problem": problem.text, "problem_values": problem.values}
    if status == DeliveryStatus.WAITING:
        changes["due_at"] = clock.build_database_time_after(pause)
        _postpone_deliveries_if_receiver_is_unreachable(delivery, outcome, pause)
    if problem.text and not outcome.not_needed:
        logger.warning("Message %s was not sent (attempt %d). %s", delivery.pk, delivery.attempts, problem.english)
    # If another process has claimed the delivery since, that process records the outcome.
    Delivery.objects.filter(pk=delivery.pk, attempts=delivery.attempts, status=DeliveryStatus.WAITING).update(
        attempted_at=Now(), **changes
    )
    return DeliveryRound(
        sent=int(status == DeliveryStatus.SENT),
        failed=int(status == DeliveryStatus.WAITING),
        given_up=int(status == DeliveryStatus.GIVEN_UP),
        not_needed=int(status == DeliveryStatus.NOT_NEEDED),
    )


def _claim_due_delivery() -> Delivery | None:
    due = Delivery.objects.filter(status=DeliveryStatus.WAITING, due_at__lte=Now(), webhook__paused_at=None)
    if not due.exists():  # a round without due deliveries writes nothing
        return None
    with transaction.atomic():
        due_and_unlocked = due.select_for_update(skip_locked=True, of=("self",)).order_by("due_at", "pk")
        delivery = due_and_unlocked.select_related("notice__workspace__masking", "webhook", "user").first()
        if delivery is None:
            return None
        delivery.attempts += 1
        Delivery.objects.filter(pk=delivery.pk).update(
            attempts=delivery.attempts, due_at=clock.build_database_time_after(CLAIM)
        )
        # The content of the message is fixed now: further calls become another notice.
        Notice.objects.filter(pk=delivery.notice_id, closed=False).update(closed=True)
        return delivery


def _send_and_get_outcome(delivery: Delivery) -> DeliveryOutcome:
    try:
        message = load_and_build_notice_message(delivery.notice, to_person=delivery.webhook is None)
        not_needed_reason = _explain_unneeded_delivery(delivery, message)
        if not_needed_reason is not None or message is None:
            return DeliveryOutcome(problem=not_needed_reason, not_needed=True)
        if delivery.webhook is None:
            compose_and_send_email.send_notification_email_or_raise(delivery, message)
            return DeliveryOutcome()
        status = webhook_requests.post_to_webhook_and_get_status(delivery, message)
        answered = gettext_noop("The address answered with status %(status)s.")
        return DeliveryOutcome(
            answer=status,
            problem=None if 200 <= status < 300 else StoredSentence.build(answered, status=status),
            away=True,
        )
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPDataError, UnicodeError) as error:
        # The server may accept other recipients.
        return DeliveryOutcome(problem=delivery_error_text.build_delivery_error_sentence(error))
    except (OSError, http.client.HTTPException, safe_http.AddressRefused, NoMailServer) as error:
        return DeliveryOutcome(problem=delivery_error_text.build_delivery_error_sentence(error), away=True)
    except Exception as error:
        # One message that cannot be built must not block all others.
        logger.exception("Delivery %s could not be made.", delivery.pk)
        return DeliveryOutcome(problem=delivery_error_text.build_delivery_error_sentence(error))


def _explain_unneeded_delivery(delivery: Delivery, message: NoticeMessage | None) -> StoredSentence | None:
    is_about_comment = delivery.notice.event == Event.MENTIONED
    if message is None and is_about_comment:
        return StoredSentence.build(gettext_noop("The call was deleted before the message was sent."))
    if message is None:
        return StoredSentence.build(gettext_noop("All its calls were decided before the message was sent."))
    if delivery.user is None:
        return None
    member = Membership.objects.filter(user=delivery.user, workspace=delivery.notice.workspace).first()
    if member is None or not has_role_for_event(member, Event(delivery.notice.event)):
        if is_about_comment:
            return StoredSentence.build(gettext_noop("The recipient may not read this workspace any more."))
        return StoredSentence.build(gettext_noop("The recipient may not decide in this workspace any more."))
    return None


def _get_next_status(delivery: Delivery, outcome: DeliveryOutcome, max_attempts: int) -> DeliveryStatus:
    if outcome.not_needed:
        return DeliveryStatus.NOT_NEEDED
    if outcome.problem is None:
        return DeliveryStatus.SENT
    return DeliveryStatus.GIVEN_UP if delivery.attempts >= max_attempts else DeliveryStatus.WAITING


def _compute_retry_delay(attempts: int) -> timedelta:
    """Return the delay before the next attempt, with random variation so that retries spread out."""
    base_delay: timedelta = min(AGAIN * 2 ** min(attempts - 1, 20), LONGEST_PAUSE)
    return base_delay * _chance.uniform(0.8, 1.2)


def _postpone_deliveries_if_receiver_is_unreachable(
    delivery: Delivery, outcome: DeliveryOutcome, pause: timedelta
) -> None:
    """Postpone the other deliveries to an unreachable receiver, so that not each of them has to fail."""
    if outcome.away:
        next_attempt_at = clock.build_database_time_after(pause)
        _query_waiting_deliveries_to_same_receiver(delivery).exclude(pk=delivery.pk).filter(
            due_at__lt=next_attempt_at
        ).update(due_at=next_attempt_at)


def _query_waiting_deliveries_to_same_receiver(delivery: Delivery) -> QuerySet[Delivery]:
    waiting = Delivery.objects.filter(status=DeliveryStatus.WAITING)
    return waiting.filter(webhook=delivery.webhook_id)  # without a webhook: all e-mail goes through one server
