"""The outbox is emptied here: one message after the other, by any number of processes.

Whoever sends a message first moves on when it is due. If that process dies, the message is anybody's again a while
later; it may then arrive twice, with the same id, and is never lost. What cannot be sent is tried again, each time
later, and given up in the end, which the log shows.
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

from checkpoints import clock
from checkpoints.enums import AuditKind
from harness_site.accounts.models import Membership
from harness_site.notifications import failures, mails, posting, webhooks
from harness_site.notifications.messages import Message, message
from harness_site.notifications.models import Delivery, DeliveryStatus, Event, Notice, Webhook
from harness_site.notifications.recipients import may_be_told

logger = logging.getLogger(__name__)

#: How long a message is left to whoever sends it; one who dies with it is not missed earlier.
CLAIM: Final = timedelta(minutes=2)
#: How long to wait after a failed attempt: twice as long after each further one, up to the last.
AGAIN: Final = timedelta(seconds=5)
LONGEST_PAUSE: Final = timedelta(hours=1)
#: With these pauses, about a day.
MOST_ATTEMPTS: Final = 30
#: Messages that one round sends at most.
LIMIT: Final = 100
_chance = random.SystemRandom()


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended. `problem` is empty where it was sent; `away` says that others will fail there too."""

    problem: str = ""
    answer: int | None = None
    away: bool = False
    not_needed: bool = False


@dataclass(frozen=True)
class Round:
    """How many messages were sent, failed for now, and were given up or not needed."""

    sent: int = 0
    failed: int = 0
    given_up: int = 0
    not_needed: int = 0

    def __add__(self, other: Round) -> Round:
        return Round(
            self.sent + other.sent,
            self.failed + other.failed,
            self.given_up + other.given_up,
            self.not_needed + other.not_needed,
        )


def deliver(*, limit: int = LIMIT) -> Round:
    """Send what is due, one at a time."""
    done = Round()
    for _ in range(limit):
        claimed = _claim()
        if claimed is None:
            break
        done += attempt(claimed)
    return done


def send_test(webhook: Webhook, *, by: Membership, request: HttpRequest) -> None:
    """Send a message about nothing at once, and once; how that ended is in the log."""
    now = clock.database_now("default")
    with transaction.atomic():
        notice = Notice.objects.create(workspace_id=webhook.workspace_id, event=Event.TEST, send_at=now, closed=True)
        trial = Delivery.objects.create(
            notice=notice, webhook=webhook, recipient=webhook.host, attempts=1, due_at=now + CLAIM
        )
        webhooks.record(by, AuditKind.WEBHOOK_TESTED, webhook, request)
    attempt(trial, most=1)


def attempt(delivery: Delivery, *, most: int = MOST_ATTEMPTS) -> Round:
    """Try to send a message that was claimed, and write down how that ended."""
    began = time.monotonic()
    outcome = _outcome(delivery)
    took = timedelta(seconds=time.monotonic() - began)
    status = _status(delivery, outcome, most)
    pause = _pause(delivery.attempts)
    changes: dict[str, Any] = {"status": status, "answer": outcome.answer, "problem": outcome.problem, "took": took}
    if status == DeliveryStatus.WAITING:
        changes["due_at"] = clock.from_now(pause)
        _put_off_others(delivery, outcome, pause)
    # Whoever has claimed it since writes down how it ended.
    Delivery.objects.filter(pk=delivery.pk, attempts=delivery.attempts, status=DeliveryStatus.WAITING).update(
        attempted_at=Now(), **changes
    )
    return Round(
        sent=int(status == DeliveryStatus.SENT),
        failed=int(status == DeliveryStatus.WAITING),
        given_up=int(status == DeliveryStatus.GIVEN_UP),
        not_needed=int(status == DeliveryStatus.NOT_NEEDED),
    )


def _claim() -> Delivery | None:
    due = Delivery.objects.filter(status=DeliveryStatus.WAITING, due_at__lte=Now(), webhook__paused_at=None)
    if not due.exists():  # a round that finds nothing to do writes nothing
        return None
    with transaction.atomic():
        locked = due.select_for_update(skip_locked=True, of=("self",)).order_by("due_at", "pk")
        found = locked.select_related("notice__workspace__masking", "webhook", "user").first()
        if found is None:
            return None
        found.attempts += 1
        Delivery.objects.filter(pk=found.pk).update(attempts=found.attempts, due_at=clock.from_now(CLAIM))
        # From here on the message is what it is: more calls become another notice.
        Notice.objects.filter(pk=found.notice_id, closed=False).update(closed=True)
        return found


def _outcome(delivery: Delivery) -> Outcome:
    try:
        said = message(delivery.notice)
        refused = _not_needed(delivery, said)
        if refused or said is None:
            return Outcome(problem=refused, not_needed=True)
        if delivery.webhook is None:
            mails.send(delivery, said)
            return Outcome()
        status = webhooks.send(delivery, said)
        return Outcome(answer=status, problem="" if 200 <= status < 300 else f"The answer was {status}.", away=True)
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPDataError) as error:
        return Outcome(problem=failures.said(error))  # others may well be taken
    except (OSError, http.client.HTTPException, posting.AddressRefused, mails.NoMailServer) as error:
        return Outcome(problem=failures.said(error), away=True)
    except Exception as error:
        # One message that cannot be made must not keep all others from being sent.
        logger.exception("Delivery %s could not be made.", delivery.pk)
        return Outcome(problem=failures.said(error))


def _not_needed(delivery: Delivery, said: Message | None) -> str:
    if said is None:
        return "Everything was decided before it was sent."
    if delivery.user is None:
        return ""
    member = Membership.objects.filter(user=delivery.user, workspace=delivery.notice.workspace).first()
    if member is None or not may_be_told(member, Event(delivery.notice.event)):
        return "Whom it was for may not decide here any more."
    return ""


def _status(delivery: Delivery, outcome: Outcome, most: int) -> DeliveryStatus:
    if outcome.not_needed:
        return DeliveryStatus.NOT_NEEDED
    if not outcome.problem:
        return DeliveryStatus.SENT
    return DeliveryStatus.GIVEN_UP if delivery.attempts >= most else DeliveryStatus.WAITING


def _pause(attempts: int) -> timedelta:
    """Somewhat less or more than twice the one before, so that not all come back at once."""
    longest: timedelta = min(AGAIN * 2 ** min(attempts - 1, 20), LONGEST_PAUSE)
    return longest * _chance.uniform(0.8, 1.2)


def _put_off_others(delivery: Delivery, outcome: Outcome, pause: timedelta) -> None:
    """Where a receiver is away, what else waits for it need not find that out one by one."""
    if outcome.away:
        again = clock.from_now(pause)
        _same_receiver(delivery).exclude(pk=delivery.pk).filter(due_at__lt=again).update(due_at=again)


def _same_receiver(delivery: Delivery) -> QuerySet[Delivery]:
    waiting = Delivery.objects.filter(status=DeliveryStatus.WAITING)
    return waiting.filter(webhook=delivery.webhook_id)  # no webhook: all e-mail goes through one server
