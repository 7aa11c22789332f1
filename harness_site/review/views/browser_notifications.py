"""Browser notifications about calls that began to wait since a given time."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Final

from django.core.exceptions import BadRequest
from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from checkpoints.enums import CallStatus, Role
from checkpoints.models import ToolCall
from harness_site.accounts import session_secrets_from_call_arguments
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.accounts.sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.core import formatting
from harness_site.core.call_sentences import format_call_sentence
from harness_site.core.datetime_parameters import parse_utc_datetime_or_none
from harness_site.core.masking.masker import use_masking_rules_with_extra_values
from harness_site.core.masking.reversible_tokens_for_masked_names import encrypt_name_if_masked
from harness_site.review.outage_page_url import build_outage_page_url
from harness_site.review.pending_call_rows import (
    find_verification_error_and_quarantine,
    format_outage_title,
    get_seal_error_sentence_and_label,
)
from harness_site.review.selectors import outage_groups, pending_calls
from harness_site.review.selectors.outage_groups import Outage

#: Rows may be committed this much later than their time; pages deduplicate notifications by tag.
_OVERLAP: Final = timedelta(seconds=5)
#: Maximum number of single notifications; the rest is summarized as a number.
MAX_NOTIFICATIONS: Final = 5


@dataclass(frozen=True, slots=True)
class BrowserNotification:
    """Browser notification; a later one with the same `tag` replaces it."""

    tag: str
    title: str
    body: str
    url: str


@require_GET
@require_member_with_role(Role.AUDITOR)
def list_browser_notifications(request: MemberRequest) -> HttpResponse:
    since = parse_utc_datetime_or_none(request.GET.get("since", ""))
    if since is None:
        raise BadRequest(_("The time in the address cannot be read."))
    calls = pending_calls.list_pending_calls_waiting_since(request.membership.workspace, since - _OVERLAP)
    mark_excerpts_shown_in_response(request, "news", {call.session_id for call in calls})
    notifications = list(
        dict.fromkeys(
            _build_notifications_with_integrity_errors(
                calls, outage_groups.list_open_outages(request.membership.workspace) if calls else []
            )
        )
    )
    hidden_count = len(notifications) - MAX_NOTIFICATIONS
    if hidden_count > 0:
        notifications = [
            *notifications[:MAX_NOTIFICATIONS],
            BrowserNotification(
                "more",
                ngettext(
                    "{number} more call needs a decision", "{number} more calls need a decision", hidden_count
                ).format(number=hidden_count),
                "",
                reverse("harness_review:review"),
            ),
        ]
    return JsonResponse({"news": [asdict(notification) for notification in notifications]})


def _build_notifications_with_integrity_errors(
    calls: Sequence[ToolCall], outages: list[Outage]
) -> Iterable[BrowserNotification]:
    outages_by_call = outage_groups.map_calls_to_outages(calls, outages)
    secrets = session_secrets_from_call_arguments.load_known_secrets_of_sessions({call.session_id for call in calls})
    for call in calls:
        outage = outages_by_call.get(call.pk)
        if outage is not None:
            cause = f"{encrypt_name_if_masked(outage.tool)} {encrypt_name_if_masked(outage.error_type)}"
            tag = f"outage {cause} {formatting.format_iso_time(outage.first)}"
            title = format_outage_title(outage)
            yield BrowserNotification(tag, title, _("Their outcome is unknown."), build_outage_page_url(outage))
        else:
            question = _("May this happen?") if call.status == CallStatus.AWAITING_APPROVAL else _("Did this happen?")
            if error := find_verification_error_and_quarantine(call):
                question, sentence = get_seal_error_sentence_and_label(error)[::-1]
            else:
                with use_masking_rules_with_extra_values(secrets.get(call.session_id, ())):
                    sentence = format_call_sentence(call)
            yield BrowserNotification(
                f"call {call.pk}", question, sentence, reverse("harness_review:card", args=[call.pk])
            )
