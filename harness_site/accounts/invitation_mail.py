"""E-mail with the link of an invitation."""

from __future__ import annotations

from email.message import EmailMessage

from django.utils.translation import gettext as _

from harness_site.accounts.models import Invitation
from harness_site.core import formatting
from harness_site.core.hidden_characters import format_on_one_line
from harness_site.send_email import send_email_through_server, set_email_headers


def send_invitation(invitation: Invitation, address: str, link: str) -> None:
    """Send the link to `address`, and return when the mail server has accepted it. Raises one of `MAIL_ERRORS`."""
    workspace, inviter = (format_on_one_line(text) for text in (invitation.workspace.name, invitation.invited_by))
    email = EmailMessage()
    subject = _("Invitation to %(workspace)s") % {"workspace": workspace}
    set_email_headers(email, to=address, subject=subject)
    email.set_content(_build_invitation_text(invitation, workspace, inviter, link))
    send_email_through_server(email, link)


def _build_invitation_text(invitation: Invitation, workspace: str, inviter: str, link: str) -> str:
    values = {
        "inviter": inviter,
        "workspace": workspace,
        "role": invitation.get_role_display(),
        "until": formatting.format_time_with_zone(invitation.expires_at),
        "link": link,
    }
    return (
        _(
            "%(inviter)s invites you to the workspace %(workspace)s in Harness. Your role: %(role)s.\n\n"
            "Open this link to join. It works once, until %(until)s:\n\n"
            "%(link)s\n\n"
            "If you did not expect this invitation, ignore this message. Nothing happens without the link.\n"
        )
        % values
    )
