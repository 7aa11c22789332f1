from harness_site.notifications.models.accepting_mail_server import AcceptingMailServer
from harness_site.notifications.models.call_filter import (
    FILTERED_EVENTS,
    CallFilter,
    normalize_tool_patterns,
    split_tool_patterns,
)
from harness_site.notifications.models.delivery import Delivery, DeliveryStatus
from harness_site.notifications.models.notice import CALL_EVENTS, Event, Notice, NoticedCall
from harness_site.notifications.models.preferences import Preferences
from harness_site.notifications.models.webhook import Webhook, WebhookFormat

__all__ = [
    "CALL_EVENTS",
    "FILTERED_EVENTS",
    "AcceptingMailServer",
    "CallFilter",
    "Delivery",
    "DeliveryStatus",
    "Event",
    "Notice",
    "NoticedCall",
    "Preferences",
    "Webhook",
    "WebhookFormat",
    "normalize_tool_patterns",
    "split_tool_patterns",
]
