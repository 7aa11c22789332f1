"""Going on from any version of a session in a new one: what that means first, then doing it."""

from __future__ import annotations

from django import forms
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from checkpoints.client import SyncCheckpointer
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import InvalidIdentifier, SessionExists, SessionNotFound, VersionNotFound
from checkpoints.ids import MAX_LENGTH
from checkpoints.queries import forks, sessions, versions
from checkpoints.queries.sessions import SessionHead
from checkpoints.queries.versions import Version
from checkpoints.resuming.actors import Actor
from harness_site.accounts.forms import dressed
from harness_site.accounts.guard import MemberRequest, RoleTooSmall, able
from harness_site.accounts.shown import note_shown
from harness_site.rendering.masking import MASK, masked
from harness_site.sessions.lookup import Missing, headline, no_version, number, reader


class ForkForm(forms.Form):
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    session_id = forms.CharField(max_length=MAX_LENGTH, strip=False, label="Id of the new session")

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        dressed(self)
        self.fields["session_id"].widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}


@require_http_methods(["GET", "POST"])
@reader
def fork(request: MemberRequest, pk: int) -> HttpResponse:
    """`v` is the version to go on from, or the newest. Everybody may see what a fork means; approvers make one."""
    head = headline(request, pk)
    if request.method == "GET":
        found = _version(request, head)
        named = masked(head.row.session_id).replace(MASK, "masked")
        free = forks.free_id(request.membership.workspace_id, named, found.version)
        return _show(request, head, found, ForkForm(initial={"version": found.version, "session_id": free}))
    if not request.membership.may(Role.APPROVER):
        raise RoleTooSmall(request.membership, Role.APPROVER)
    form = ForkForm(request.POST)
    if not form.is_valid():
        version = form.cleaned_data.get("version")
        return _show(request, head, _known(head, version) if version else _newest(head), form, status=422)
    return _fork(request, head, form)


def _fork(request: MemberRequest, head: SessionHead, form: ForkForm) -> HttpResponse:
    workspace = request.membership.workspace
    version, name = form.cleaned_data["version"], form.cleaned_data["session_id"]
    actor = Actor(ActorKind.PERSON, request.membership.user.get_username(), Role(request.membership.role))
    try:
        SyncCheckpointer(workspace=workspace.slug).fork_session(head.row.session_id, name, version=version, actor=actor)
    except (SessionExists, InvalidIdentifier) as error:
        form.add_error("session_id", f"{error.detail} {error.hint}")
        return _show(request, head, _known(head, version), form, status=422)
    except (VersionNotFound, SessionNotFound):
        raise no_version(head, str(version)) from None
    made = sessions.pk_of(workspace.pk, name)
    return redirect("session", made) if made is not None else redirect("sessions")


def _version(request: MemberRequest, head: SessionHead) -> Version:
    asked = request.GET.get("v", "")
    if not asked:
        return _newest(head)
    version = number(request, "v")
    if version is None:
        raise no_version(head, asked[:20])
    return _known(head, version)


def _newest(head: SessionHead) -> Version:
    found = versions.newest(head.row.pk)
    if found is None:
        raise Missing("This session has no version to go on from.", "Each save_checkpoint adds one.", head)
    return found


def _known(head: SessionHead, version: int) -> Version:
    found = versions.one(head.row.pk, version)
    if found is None:
        raise no_version(head, str(version))
    return found


def _show(
    request: MemberRequest, head: SessionHead, version: Version, form: ForkForm, status: int = 200
) -> HttpResponse:
    may = request.membership.may(Role.APPROVER)
    context = {
        "head": head,
        "tab": "versions",
        "form": form,
        "may": may,
        "able": () if may else able(request.membership.workspace, Role.APPROVER),
        "prospect": forks.prospect(head.row.pk, version),
    }
    note_shown(request, head.row.pk)
    return render(request, "sessions/fork.html", context, status=status)
