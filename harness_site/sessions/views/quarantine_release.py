"""Page of a quarantined session: what was found, who may release it, and the form to release it."""

from __future__ import annotations

import shlex
from typing import Final

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from checkpoints.decisions.actors import Actor
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import NotQuarantined, QuarantineStays
from checkpoints.integrity.quarantine import parse_quarantine_of_row
from checkpoints.sync_client import SyncCheckpointer
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.account_and_login_forms import set_field_labels_styles_and_errors
from harness_site.accounts.mark_sessions_shown_in_response import mark_session_shown_in_response
from harness_site.accounts.permissions import MemberRequest, RoleTooSmall, list_active_usernames_with_role_or_higher
from harness_site.core.management_command_as_typed import prefix_management_command_with_program
from harness_site.sessions.altered_record_names import mask_and_format_record_name
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.session_lookup_masking_and_404 import (
    PageNotFound,
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)

#: What the check found, in the words of the library, and in those of members.
_SENTENCE_BY_FINDING: Final = {
    "its columns do not match its seal": gettext_lazy("It is not as Harness wrote it."),
    "its arguments do not match their digest": gettext_lazy("Its arguments are not those that Harness wrote."),
    "its result does not match its digest": gettext_lazy("Its result is not the one that Harness wrote."),
    "its result or the message of its error does not match their digest": gettext_lazy(
        "Its result, or the message of its error, is not the one that Harness wrote."
    ),
    "its text does not match its chain": gettext_lazy("Its text is not the one that Harness wrote."),
    "its transcript is not the one it was saved with": gettext_lazy("Its messages are not those it was saved with."),
    "its text was altered": gettext_lazy("Its text was altered."),
    "a message before it is missing": gettext_lazy("A message before it is missing."),
    "the segment before it is missing": gettext_lazy("The messages before it are missing."),
    "it names another session than its segment": gettext_lazy("It names another session than the messages around it."),
    "it is missing, or another version stands in its place": gettext_lazy(
        "It is missing, or another version stands in its place."
    ),
    "it is missing, and a state of a framework names it": gettext_lazy("It is missing."),
    "it is missing": gettext_lazy("It is missing."),
}


class ReleaseForm(forms.Form):
    reason = forms.CharField(
        max_length=2000,
        label=gettext_lazy("Reason"),
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": gettext_lazy("Enter a reason: it is recorded with your name.")},
    )
    accept_altered = forms.BooleanField(
        required=False, label=gettext_lazy("Accept the altered data as it is now, although nobody knows who changed it")
    )

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        set_field_labels_styles_and_errors(self)


@require_http_methods(["GET", "POST"])
@require_member_and_handle_page_not_found
def show_or_release_quarantine(request: MemberRequest, pk: int) -> HttpResponse:
    """Show what was found in a quarantined session to every member; an admin may release it."""
    head = get_session_head_and_mask_secrets_or_404(request, pk, verified=False)
    if head.stored.quarantined_at is None:
        raise PageNotFound(
            _("This session is not quarantined."), _("Somebody may have released it. Its history says who."), head
        )
    if request.method == "GET":
        return _render_quarantine_page(request, head, ReleaseForm())
    if not request.membership.has_role(Role.ADMIN):
        raise RoleTooSmall(request.membership, Role.ADMIN)
    form = ReleaseForm(request.POST)
    if not form.is_valid():
        return _render_quarantine_page(request, head, form, status=422)
    return _release_quarantine_and_redirect(request, head, form)


def _release_quarantine_and_redirect(request: MemberRequest, head: SessionHead, form: ReleaseForm) -> HttpResponse:
    try:
        SyncCheckpointer(workspace=request.membership.workspace.slug).release_quarantine(
            head.row.session_id,
            actor=Actor(
                ActorKind.PERSON,
                request.membership.user.get_username(),
                Role(request.membership.role),
                address=record_user_audit_events.find_client_address(request),
            ),
            reason=form.cleaned_data["reason"],
            accept_altered=form.cleaned_data["accept_altered"],
        )
    except QuarantineStays as error:
        problem = _("Row {row} of the table {table} is not as it was written.").format(row=error.row, table=error.table)
        if form.cleaned_data["accept_altered"]:
            todo = _("It cannot be accepted as it is. Restore it from a backup, or delete the session.")
        else:
            todo = _("Restore the rows from a backup and release the session then. It stays quarantined.")
        form.add_error(None, f"{problem} {todo}")
        return _render_quarantine_page(request, head, form, status=409)
    except NotQuarantined:
        return redirect("harness_sessions:session", head.row.pk)
    messages.success(request, _("The session was released. An agent can resume it."))
    return redirect("harness_sessions:session", head.row.pk)


def render_quarantine_page_in_place_of_another(request: MemberRequest, pk: int, problem: str) -> HttpResponse:
    """Render the page of a quarantined session in place of a page that would show its altered data, with status 409.

    Args:
        request: Request of the other page.
        pk: Key of the session.
        problem: Sentence that names the row that the other page would show.

    Raises:
        PageNotFound: If the member's workspace has no such session.
    """
    head = get_session_head_and_mask_secrets_or_404(request, pk, verified=False)
    return _render_quarantine_page(request, head, ReleaseForm(), status=409, problem=problem)


def _render_quarantine_page(
    request: MemberRequest, head: SessionHead, form: ReleaseForm, status: int = 200, problem: str = ""
) -> HttpResponse:
    found = parse_quarantine_of_row(head.stored)
    context = {
        "head": head,
        "tab": "quarantine",
        "form": form,
        "quarantine": found,
        "problem_of_other_page": problem,
        "problems": [
            {
                **problem.to_dict(),
                "record": mask_and_format_record_name(problem.table, problem.row),
                "finding": str(_SENTENCE_BY_FINDING.get(problem.why, problem.why)),
            }
            for problem in (found.problems if found else ())
        ],
        "quarantine_command": prefix_management_command_with_program(
            f"verify_integrity --session {shlex.quote(head.row.session_id)}"
        ),
        "may": request.membership.has_role(Role.ADMIN),
        "able": list_active_usernames_with_role_or_higher(request.membership.workspace, Role.ADMIN),
    }
    mark_session_shown_in_response(request, head.row.pk)
    return render(request, "sessions/quarantine.html", context, status=status)
