"""Browser notifications about calls that began to wait, and comments that mention the reader, since a given time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final

from django.core.exceptions import BadRequest
from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from checkpoints.enums import CallStatus, Role
from checkpoints.models import ToolCall
from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.core import formatting, masked_formatting
from harness_site.core.call_sentences import format_call_sentence
from harness_site.core.datetime_parameters import parse_utc_datetime_or_none
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.masking.encrypted_names_in_urls import encrypt_name_if_masked
from harness_site.core.masking.masker import (
    mask_values_of_secret_fields_in_context,
    use_masking_rules_with_extra_values,
)
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.notifications.recipients import get_preferences_or_unsaved_defaults, is_call_of_high_risk
from harness_site.review.models import Comment
from harness_site.review.outage_group_rows import format_outage_title
from harness_site.review.outage_page_url import build_outage_page_url
from harness_site.review.pending_call_rows import (
    find_verification_error_and_quarantine,
    get_seal_error_sentence_and_label,
)
from harness_site.review.selectors import mentions_in_comments, outage_groups, pending_calls
from harness_site.review.selectors.outage_groups import Outage

#: Rows may be committed this much later than their time; pages deduplicate notifications by tag.
_OVERLAP: Final = timedelta(seconds=5)
#: Maximum number of single notifications about calls, of which the rest is summarized as a number, and about comments.
MAX_NOTIFICATIONS: Final = 5
#: Maximum length of the text of a comment.
_MAX_COMMENT_LENGTH: Final = 200


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
    calls = _list_calls_of_which_the_reader_is_told(request.membership, since - _OVERLAP)
    comments = _list_newest_comments_that_mention(request.membership, since - _OVERLAP)
    sessions = {call.session_id for call in calls} | {comment.call.session_id for comment in comments}
    mark_excerpts_shown_in_response(request, "news", sessions)
    secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(sessions)
    notifications = list(
        dict.fromkeys(
            _build_notifications_and_quarantine_altered(
                calls, outage_groups.list_open_outages(request.membership.workspace) if calls else [], secrets
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
    notifications += [_build_mention_notification(comment, secrets) for comment in comments]
    return JsonResponse({"news": [asdict(notification) for notification in notifications]})


def _list_calls_of_which_the_reader_is_told(reader: Membership, since: datetime) -> list[ToolCall]:
    preferences = get_preferences_or_unsaved_defaults(reader.user)
    return [
        call
        for call in pending_calls.list_newly_pending_calls(reader.workspace, since)
        if preferences.lets_call_through(call.status, call.tool, is_high_risk=is_call_of_high_risk(call))
    ]


def _list_newest_comments_that_mention(reader: Membership, since: datetime) -> list[Comment]:
    comments = mentions_in_comments.query_comments_that_mention(reader.user.get_username())
    newest = comments.filter(call__workspace=reader.workspace_id, created_at__gt=since).order_by("-pk")
    return list(newest.select_related("call")[:MAX_NOTIFICATIONS])


def _build_mention_notification(comment: Comment, secrets: Mapping[int, frozenset[str]]) -> BrowserNotification:
    with (
        use_masking_rules_with_extra_values(secrets.get(comment.call.session_id, ())),
        mask_values_of_secret_fields_in_context(masked_formatting.parse_json_or_text(comment.call.args)),
    ):
        title = _("%(name)s mentions you") % {"name": mask_and_reveal_hidden(comment.author)}
        text = masked_formatting.mask_and_shorten_to_one_line(comment.text, _MAX_COMMENT_LENGTH)
    page = reverse("harness_review:card", args=[comment.call_id])
    return BrowserNotification(f"comment {comment.pk}", title, text, f"{page}#comments")


def _build_notifications_and_quarantine_altered(
    calls: Sequence[ToolCall], outages: list[Outage], secrets: Mapping[int, frozenset[str]]
) -> Iterable[BrowserNotification]:
    outages_by_call = outage_groups.map_calls_to_outages(calls, outages)
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
