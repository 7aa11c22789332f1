"""E-mail with the link of an invitation."""

from __future__ import annotations

from django.utils.translation import gettext as _

from harness_site.accounts.membership_queries import is_single_workspace_installation
from harness_site.accounts.models import Invitation
from harness_site.compose_email_with_link import compose_link_email
from harness_site.core import formatting
from harness_site.core.hidden_characters import format_on_one_line
from harness_site.send_email import send_email_through_server


def send_invitation_email(invitation: Invitation, address: str, link: str) -> None:
    """Send the link to `address`, and return when the mail server has accepted it. Raises one of `MAIL_ERRORS`.

    The time zone of the invited person is not known: times are in that of the inviter and named with it.
    """
    values = {
        "inviter": format_on_one_line(invitation.invited_by),
        "workspace": format_on_one_line(invitation.workspace.name),
        "role": invitation.get_role_display(),
        "until": formatting.format_date_and_time_with_zone(invitation.expires_at),
    }
    if is_single_workspace_installation():
        subject, label = _("Invitation to Harness"), _("Join Harness")
        introduction = _("%(inviter)s invites you to Harness. Your role: %(role)s.")
    else:
        subject, label = _("Invitation to %(workspace)s"), _("Join the workspace")
        introduction = _("%(inviter)s invites you to the workspace %(workspace)s in Harness. Your role: %(role)s.")
    email = compose_link_email(
        to=address,
        subject=subject % values,
        introduction=introduction % values,
        label=label,
        link=link,
        explanation=_(
            "This link works once, until %(until)s. If you did not expect this invitation, ignore this message. "
            "Nothing happens without the link."
        )
        % values,
    )
    send_email_through_server(email, link)
