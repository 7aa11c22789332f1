"""Retention of notices and their delivery log."""

from datetime import timedelta
from typing import Final

from django.db.models import Exists, OuterRef

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES
from checkpoints.models import ToolCall
from harness_site.notifications.models import Delivery, DeliveryStatus, Notice, NoticedCall

RETENTION: Final = timedelta(days=90)
#: Maximum number of notices deleted per round.
LIMIT: Final = 500


def delete_old_notices_and_deliveries() -> int:
    """Delete old notices with their deliveries; return the number of notices.

    Notices with unsent deliveries stay, and so do those of calls that still wait: they would be sent again.
    """
    waiting = Delivery.objects.filter(notice=OuterRef("pk"), status=DeliveryStatus.WAITING)
    undecided = ToolCall.objects.filter(pk=OuterRef("tool_call_id"), status__in=sorted(UNDECIDED_CALL_STATUSES))
    noticed_pending_calls = NoticedCall.objects.filter(Exists(undecided), notice=OuterRef("pk"))
    old_notices = Notice.objects.filter(
        ~Exists(waiting), ~Exists(noticed_pending_calls), created_at__lt=clock.build_database_time_after(-RETENTION)
    )
    keys = list(old_notices.order_by("pk").values_list("pk", flat=True)[:LIMIT])
    Notice.objects.filter(pk__in=keys).delete()
    return len(keys)
