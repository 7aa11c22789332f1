"""Reasons why a member cannot decide about an undecided call that others can decide."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from checkpoints.enums import Role
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.review.what_reader_may_decide_and_has_decided import has_agreement_of_person, may_member_decide_call
from harness_site.sessions.selectors.multi_person_decisions import Agreement


def explain_why_reader_cannot_decide(call: ToolCall, agreements: Sequence[Agreement], reader: Membership) -> str:
    """Return why this member cannot decide about an undecided call now, or cannot any more; empty if they can."""
    if not call.undecided or reader.role == Role.AUDITOR:
        return ""
    if has_agreement_of_person(agreements, reader.user.get_username()):
        if len(agreements) > 1:
            return _("you have decided, and another person disagrees")
        return _("you have decided, and another person has to agree")
    if may_member_decide_call(call, reader):
        return ""
    if call.session.quarantined_at is not None:
        return _("nobody can decide while its session is quarantined")
    return _("only an admin can decide now")
