"""Adding and removing labels, of one session or of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import F
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from checkpoints.enums import AuditKind, Role
from checkpoints.formats import to_canonical_json
from checkpoints.models import Session
from checkpoints.models.session import deserialize_labels
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.core.masking.encrypted_names_in_urls import decrypt_name_if_encrypted
from harness_site.core.number_parameters import parse_whole_number_or_none
from harness_site.saved_views.list_filter_normalization import normalize_filter_query
from harness_site.search.models import Fact, Trait
from harness_site.sessions.selectors import session_rows
from harness_site.sessions.session_lookup_masking_and_404 import (
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)

#: Maximum number of labels of a session.
MAX_LABELS: Final = 20
LONGEST: Final = 60
_TOO_LONG: Final = gettext_lazy(
    "A label has at most %(limit_value)d characters, and this one has %(show_value)d. Nothing was changed. Enter a "
    "shorter one."
)
_CHOOSE: Final = gettext_lazy("Select at least one session in the list.")


class TooManyLabels(Exception):
    """Exceeded maximum number of labels of a session; no session was changed."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            ngettext(
                "“%(session)s” already has %(count)s label. Nothing was changed. Remove it, or do not choose this "
                "session.",
                "“%(session)s” already has %(count)s labels. Nothing was changed. Remove one of them, or do not choose "
                "this session.",
                MAX_LABELS,
            )
            % {"session": session_id, "count": MAX_LABELS}
        )


class LabelForm(forms.Form):
    label = forms.CharField(strip=False, error_messages={"required": gettext_lazy("Enter a label.")})
    what = forms.ChoiceField(choices=[("add", gettext_lazy("Add")), ("remove", gettext_lazy("Remove"))])
    session = forms.TypedMultipleChoiceField(
        coerce=int, error_messages=dict.fromkeys(("required", "invalid_choice"), _CHOOSE)
    )

    def __init__(self, data: QueryDict, offered: list[str]) -> None:
        super().__init__(data)
        field = self.fields["session"]
        if isinstance(field, forms.TypedMultipleChoiceField):
            field.choices = [(pk, pk) for pk in offered]

    def clean_label(self) -> str:
        """Return the label that the value names. Any label of a session can be removed, whatever a new one may be."""
        label = decrypt_name_if_encrypted(self.cleaned_data["label"])
        if self.data.get("what") == "remove":
            return label.strip() if "query" in self.data else label  # in the list, it was typed
        new_label = forms.CharField(
            max_length=LONGEST, error_messages={**self.fields["label"].error_messages, "max_length": _TOO_LONG}
        )
        return str(new_label.clean(label))


@require_POST
@require_member_and_handle_page_not_found
@require_member_with_role(Role.APPROVER)
def edit_labels_of_sessions(request: MemberRequest) -> HttpResponse:
    """Add a label to sessions or remove it.

    `session` lists the keys of the sessions; `query` is the query string of the list they were selected in, empty on
    the page of a session.
    """
    is_of_list = "query" in request.POST
    form = LabelForm(request.POST, _list_well_formed_session_keys(request.POST.getlist("session")))
    query = normalize_filter_query("sessions", QueryDict(request.POST.get("query", "")))
    back = f"{reverse('harness_sessions:sessions')}?{query}" if query else reverse("harness_sessions:sessions")
    if form.is_valid():
        label, keys = form.cleaned_data["label"], form.cleaned_data["session"]
        try:
            is_added = form.cleaned_data["what"] == "add"
            changed = add_or_remove_label_and_count_changed(request, keys=keys, label=label, is_added=is_added)
        except TooManyLabels as refused:
            form.add_error("label", str(refused))
        else:
            if is_of_list:
                messages.success(request, _describe_label_change(label, changed, is_added=is_added))
                return redirect(back)
            return _render_labels(request, keys[0]) if request.htmx else redirect("harness_sessions:session", keys[0])
    errors = [str(error) for field_errors in form.errors.values() for error in field_errors]
    if not is_of_list and (named := form.cleaned_data.get("session")):
        return _render_labels(request, named[0], errors=errors)
    return render(request, "sessions/label_errors.html", {"errors": errors, "back": back}, status=422)


def _render_labels(request: MemberRequest, pk: int, *, errors: Sequence[str] = ()) -> HttpResponse:
    """Render the labels of one session, of which the menu of an open page takes its part."""
    context = {
        "head": get_session_head_and_mask_secrets_or_404(request, pk),
        "label_errors": errors,
        "rejected_label": request.POST.get("label", "") if errors and request.POST.get("what") == "add" else "",
    }
    return render(request, "sessions/labels.html", context, status=422 if errors else 200)


def _describe_label_change(label: str, sessions: int, *, is_added: bool) -> str:
    values = {"label": label, "number": sessions}
    if is_added:
        return (
            ngettext(
                "The label “%(label)s” was added to %(number)s session.",
                "The label “%(label)s” was added to %(number)s sessions.",
                sessions,
            )
            % values
        )
    return (
        ngettext(
            "The label “%(label)s” was removed from %(number)s session.",
            "The label “%(label)s” was removed from %(number)s sessions.",
            sessions,
        )
        % values
    )


def add_or_remove_label_and_count_changed(
    request: MemberRequest, *, keys: list[int], label: str, is_added: bool
) -> int:
    """Add `label` to these sessions of the workspace, or remove it if `is_added` is False.

    Returns the number of sessions that were changed. Those that need no change are not written, and the time of last
    activity is kept. Raises `TooManyLabels`.
    """
    workspace, changed = request.membership.workspace_id, 0
    with transaction.atomic():
        sessions = (
            Session.objects.select_for_update(no_key=True).filter(workspace=workspace, pk__in=keys).order_by("pk")
        )
        for session in sessions.only("pk", "session_id", "labels"):
            before = deserialize_labels(session.labels)
            if (label in before) is is_added:
                continue
            if is_added and len(before) >= MAX_LABELS:
                raise TooManyLabels(session.session_id)
            after = [*before, label] if is_added else [other for other in before if other != label]
            Session.objects.filter(pk=session.pk).update(labels=to_canonical_json(after), revision=F("revision") + 1)
            _update_label_in_search_index(workspace, session.pk, label, is_added=is_added)
            changed += 1
            action = "added" if is_added else "removed"
            record_user_audit_events.record_member_event(
                request.membership, AuditKind.LABELLED, request=request, session_pk=session.pk, **{action: label}
            )
    return changed


def _update_label_in_search_index(workspace: int, session: int, label: str, *, is_added: bool) -> None:
    """Update the label in the search index, which the filters use.

    A session that is not indexed yet is left to the indexer.
    """
    if is_added:
        fact = Fact(workspace_id=workspace, session_id=session, trait=Trait.LABEL, value=label)
        Fact.objects.bulk_create([fact], ignore_conflicts=True)
    else:
        Fact.objects.filter(session=session, trait=Trait.LABEL, value=label).delete()


def _list_well_formed_session_keys(texts: list[str]) -> list[str]:
    return [text for text in texts[: session_rows.PAGE] if parse_whole_number_or_none(text) is not None]
