"""E-mails that lead to one page: an introduction, a button or a link, and an explanation."""

from __future__ import annotations

from email.message import EmailMessage

from django.template.loader import render_to_string

from harness_site.send_email import set_email_headers


def compose_link_email(
    *, to: str, subject: str, introduction: str, label: str, link: str, explanation: str
) -> EmailMessage:
    """Compose an e-mail as plain text and as HTML; `label` is that of the button, which the plain text has not."""
    email = EmailMessage()
    set_email_headers(email, to=to, subject=subject)
    email.set_content(f"{introduction}\n\n{link}\n\n{explanation}\n")
    context = {
        "subject": subject,
        "introduction": introduction,
        "label": label,
        "link": link,
        "explanation": explanation,
    }
    email.add_alternative(render_to_string("parts/link_email.html", context), subtype="html")
    return email
