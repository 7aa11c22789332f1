"""Labels that people give to sessions, one at a time or to many at once."""

from __future__ import annotations

from typing import Final

from django import forms
from django.db import transaction
from django.db.models import F
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from checkpoints.enums import AuditKind
from checkpoints.models import Session
from checkpoints.queries import sessions
from checkpoints.queries.known import labels_of
from checkpoints.serde import canonical
from harness_site.accounts import trail
from harness_site.accounts.guard import MemberRequest
from harness_site.rendering.references import resolve
from harness_site.saved.pages import normalised
from harness_site.search.models import Fact, Trait
from harness_site.sessions.lookup import reader

#: More would say nothing any more.
MOST: Final = 20
LONGEST: Final = 60
_CHOOSE: Final = "Choose one session at least, by its box in the list."


class TooManyLabels(Exception):
    """One of the sessions has as many labels as there may be; none was changed."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"“{session_id}” has {MOST} labels already. Nothing was changed: remove one from it, or leave it out."
        )


class LabelForm(forms.Form):
    label = forms.CharField(max_length=LONGEST, error_messages={"required": "Type the label first."})
    what = forms.ChoiceField(choices=[("add", "Add"), ("remove", "Remove")])
    session = forms.TypedMultipleChoiceField(
        coerce=int, error_messages=dict.fromkeys(("required", "invalid_choice"), _CHOOSE)
    )

    def __init__(self, data: QueryDict, offered: list[str]) -> None:
        super().__init__(data)
        field = self.fields["session"]
        if isinstance(field, forms.TypedMultipleChoiceField):
            field.choices = [(pk, pk) for pk in offered]


@require_POST
@reader
def labels(request: MemberRequest) -> HttpResponse:
    """`session` names those that are meant, `query` the list they were chosen from; without one, it was their page."""
    form = LabelForm(request.POST, _numbers(request.POST.getlist("session")))
    query = normalised("sessions", QueryDict(request.POST.get("query", "")))
    back = f"{reverse('sessions')}?{query}" if query else reverse("sessions")
    if form.is_valid():
        label, chosen = resolve(form.cleaned_data["label"]), form.cleaned_data["session"]
        if "query" not in request.POST:
            back = reverse("session", args=[chosen[0]])
        try:
            change(request, keys=chosen, label=label, wanted=form.cleaned_data["what"] == "add")
        except TooManyLabels as refused:
            form.add_error("label", str(refused))
        else:
            return redirect(back)
    errors = [error for found in form.errors.values() for error in found]
    return render(request, "sessions/not_labelled.html", {"errors": errors, "back": back}, status=422)


def change(request: MemberRequest, *, keys: list[int], label: str, wanted: bool) -> None:
    """Give `label` to these sessions of the reader's workspace, or take it from them. Those that have it, or have it
    not, stay as they are, and so does the time of their last activity. Raises `TooManyLabels`."""
    workspace = request.membership.workspace_id
    with transaction.atomic():
        found = Session.objects.select_for_update(no_key=True).filter(workspace=workspace, pk__in=keys).order_by("pk")
        for session in found.only("pk", "session_id", "labels"):
            before = labels_of(session.labels)
            if (label in before) is wanted:
                continue
            if wanted and len(before) >= MOST:
                raise TooManyLabels(session.session_id)
            after = [*before, label] if wanted else [each for each in before if each != label]
            Session.objects.filter(pk=session.pk).update(labels=canonical(after), revision=F("revision") + 1)
            _tell(workspace, session.pk, label, wanted=wanted)
            done = "added" if wanted else "removed"
            trail.record(
                request.membership, AuditKind.LABELLED, request=request, session_pk=session.pk, **{done: label}
            )


def _tell(workspace: int, session: int, label: str, *, wanted: bool) -> None:
    """What the filters go by; for a session that the index has not seen yet it does so by itself."""
    if wanted:
        fact = Fact(workspace_id=workspace, session_id=session, trait=Trait.LABEL, value=label)
        Fact.objects.bulk_create([fact], ignore_conflicts=True)
    else:
        Fact.objects.filter(session=session, trait=Trait.LABEL, value=label).delete()


def _numbers(named: list[str]) -> list[str]:
    return [pk for pk in named[: sessions.PAGE] if pk.isascii() and pk.isdigit() and len(pk) <= 18]
