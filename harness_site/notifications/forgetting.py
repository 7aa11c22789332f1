"""The log of deliveries does not grow for ever."""

from datetime import timedelta
from typing import Final

from django.db.models import Exists, OuterRef

from checkpoints import clock
from checkpoints.enums import UNDECIDED_CALL
from checkpoints.models import ToolCall
from harness_site.notifications.models import Delivery, DeliveryStatus, Notice, NoticedCall

KEPT: Final = timedelta(days=90)
#: Notices that one round removes at most.
LIMIT: Final = 500


def forget() -> int:
    """Remove old notices with their deliveries; returns how many.

    What still has to be sent stays, and so does what tells of a call that still waits: it would be told anew.
    """
    waiting = Delivery.objects.filter(notice=OuterRef("pk"), status=DeliveryStatus.WAITING)
    undecided = ToolCall.objects.filter(pk=OuterRef("tool_call_id"), status__in=sorted(UNDECIDED_CALL))
    told = NoticedCall.objects.filter(Exists(undecided), notice=OuterRef("pk"))
    old = Notice.objects.filter(~Exists(waiting), ~Exists(told), created_at__lt=clock.from_now(-KEPT))
    keys = list(old.order_by("pk").values_list("pk", flat=True)[:LIMIT])
    Notice.objects.filter(pk__in=keys).delete()
    return len(keys)
