"""Preview and creation of a fork from any version of a session."""

from __future__ import annotations

from typing import Final

from django import forms
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods
from django_htmx.http import push_url

from checkpoints.decisions.actors import Actor
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import InvalidIdentifier, SessionExists, SessionNotFound, VersionNotFound
from checkpoints.generate_and_validate_ids import MAX_LENGTH
from checkpoints.sessions.new_session_fields import TITLE_LENGTH
from checkpoints.sync_client import SyncCheckpointer
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.account_and_login_forms import set_field_labels_styles_and_errors
from harness_site.accounts.mark_sessions_shown_in_response import mark_session_shown_in_response
from harness_site.accounts.permissions import MemberRequest, RoleTooSmall, list_active_usernames_with_role_or_higher
from harness_site.core.masking.masker import MASK, mask_text
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.rendering.text_shortening import shorten_text
from harness_site.sessions.selectors import fork_list_and_preview, session_rows, version_lookup
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.version_lookup import Version
from harness_site.sessions.session_lookup_masking_and_404 import (
    PageNotFound,
    build_missing_version_error,
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)

#: Characters of ids that need no quotes; browsers read the pattern as a regular expression of JavaScript.
_PATTERN_OF_PLAIN_ID: Final = r"[^\s\/\\]+"


class ForkForm(forms.Form):
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    session_id = forms.CharField(
        max_length=MAX_LENGTH,
        strip=False,
        label=gettext_lazy("Id of the new session"),
        help_text=gettext_lazy("An id may have spaces and slashes, but code and addresses then have to quote them."),
    )
    title = forms.CharField(max_length=TITLE_LENGTH, required=False, label=gettext_lazy("Title of the new session"))

    #: Id and title that the form proposed. Another version has others, unless a person typed their own.
    suggested_id = forms.CharField(required=False, widget=forms.HiddenInput)
    suggested_title = forms.CharField(required=False, widget=forms.HiddenInput)

    #: An empty field would look like an id that has to be quoted.
    use_required_attribute = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        set_field_labels_styles_and_errors(self)
        self.fields["session_id"].error_messages["required"] = _("Enter an id for the new session.")
        self.fields["title"].widget.attrs["autocomplete"] = "off"
        # The styles show the help text while the id does not match; it is accepted all the same.
        self.fields["session_id"].widget.attrs |= {
            "autocomplete": "off",
            "spellcheck": "false",
            "pattern": _PATTERN_OF_PLAIN_ID,
        }
        if self.is_bound:  # shown again for a correction
            self.fields["session_id"].widget.attrs["autofocus"] = True


@require_http_methods(["GET", "POST"])
@require_member_and_handle_page_not_found
def show_or_create_fork(request: MemberRequest, pk: int) -> HttpResponse:
    """Show the preview of a fork, or create it.

    Query parameter `v` is the version to fork from; the default is the newest. Every member may see the preview; only
    approvers may create a fork.
    """
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    if request.method == "GET":
        origin = _get_requested_version_or_404(request, head)
        form = ForkForm(initial=_build_initial_values_and_keep_typed_ones(request, head, origin))
        return push_url(_render_fork_page(request, head, origin, form), f"{request.path}?v={origin.version}")
    if not request.membership.has_role(Role.APPROVER):
        raise RoleTooSmall(request.membership, Role.APPROVER)
    form = ForkForm(request.POST)
    if not form.is_valid():
        version = form.cleaned_data.get("version")
        return _render_fork_page(
            request,
            head,
            _get_version_or_404(head, version) if version else _get_newest_version_or_404(head),
            form,
            status=422,
        )
    return _create_fork_and_redirect(request, head, form)


def _build_initial_values_and_keep_typed_ones(
    request: MemberRequest, head: SessionHead, origin: Version
) -> dict[str, object]:
    """Return the first values of the form; what a person typed before choosing another version stays."""
    origin_name = mask_text(head.row.session_id).replace(MASK, "masked")
    unused_id = fork_list_and_preview.find_unused_fork_id(request.membership.workspace_id, origin_name, origin.version)
    typed_id = request.GET.get("session_id", "")[:MAX_LENGTH]
    is_typed = typed_id and typed_id != request.GET.get("suggested_id", "")
    suggested_title = _suggest_title(mask_and_reveal_hidden(head.row.title), origin.version)
    typed_title = request.GET.get("title", "")[:TITLE_LENGTH]
    is_title_typed = "title" in request.GET and typed_title != request.GET.get("suggested_title", "")
    return {
        "version": origin.version,
        "session_id": typed_id if is_typed else unused_id,
        "suggested_id": unused_id,
        "title": typed_title if is_title_typed else suggested_title,
        "suggested_title": suggested_title,
    }


def _suggest_title(title: str, version: int) -> str:
    """Say in the title of the original that it is a fork; empty if the original has none."""
    if not title:
        return ""
    mark = _("(fork of v%(number)s)") % {"number": version}
    return f"{shorten_text(title, TITLE_LENGTH - len(mark) - 1)} {mark}"


def _create_fork_and_redirect(request: MemberRequest, head: SessionHead, form: ForkForm) -> HttpResponse:
    workspace = request.membership.workspace
    version, name = form.cleaned_data["version"], form.cleaned_data["session_id"]
    title = form.cleaned_data["title"]
    if title and title == form.cleaned_data["suggested_title"]:
        title = _suggest_title(head.row.title, version)  # with the part that is masked for this reader
    elif not title or title == mask_and_reveal_hidden(head.row.title):
        title = None  # the title of the original, also the part that is masked for this reader
    actor = Actor(
        ActorKind.PERSON,
        request.membership.user.get_username(),
        Role(request.membership.role),
        address=record_user_audit_events.find_client_address(request),
    )
    try:
        SyncCheckpointer(workspace=workspace.slug).fork_session(
            head.row.session_id, name, version=version, title=title, actor=actor
        )
    except (SessionExists, InvalidIdentifier) as error:
        form.add_error("session_id", f"{error.detail} {error.hint}")
        return _render_fork_page(request, head, _get_version_or_404(head, version), form, status=422)
    except (VersionNotFound, SessionNotFound):
        raise build_missing_version_error(head, str(version)) from None
    fork_pk = session_rows.find_session_pk(workspace.pk, name)
    address = (
        reverse("harness_sessions:sessions") if fork_pk is None else reverse("harness_sessions:session", args=[fork_pk])
    )
    if request.headers.get("HX-Request"):
        # The form was sent by a script, which leaves no sent form in the history of the browser.
        return HttpResponse(headers={"HX-Redirect": address})
    return redirect(address)


def _get_requested_version_or_404(request: MemberRequest, head: SessionHead) -> Version:
    text = request.GET.get("v", "")
    if not text:
        return _get_newest_version_or_404(head)
    version = parse_number_parameter_or_none(request, "v")
    if version is None:
        raise build_missing_version_error(head, text[:20])
    return _get_version_or_404(head, version)


def _get_newest_version_or_404(head: SessionHead) -> Version:
    version = version_lookup.load_newest_version(head.row.pk)
    if version is None:
        raise PageNotFound(
            _("This session has no version to continue from."), _("Each call of save_checkpoint adds one."), head
        )
    return version


def _get_version_or_404(head: SessionHead, version: int) -> Version:
    version_row = version_lookup.load_version(head.row.pk, version)
    if version_row is None:
        raise build_missing_version_error(head, str(version))
    return version_row


def _render_fork_page(
    request: MemberRequest, head: SessionHead, version: Version, form: ForkForm, status: int = 200
) -> HttpResponse:
    may_fork = request.membership.has_role(Role.APPROVER)
    context = {
        "head": head,
        "tab": "versions",
        "form": form,
        "numbers": version_lookup.list_version_choices(head.row.pk, included=version.version),
        "may": may_fork,
        "able": ()
        if may_fork
        else list_active_usernames_with_role_or_higher(request.membership.workspace, Role.APPROVER),
        "prospect": fork_list_and_preview.load_fork_preview(head.row.pk, version),
    }
    mark_session_shown_in_response(request, head.row.pk)
    return render(request, "sessions/fork.html", context, status=status)
