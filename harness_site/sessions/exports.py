"""Taking a session away, or a list of them. Who does is an entry of the audit trail, made before the first byte."""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from django.http import FileResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints import SyncCheckpointer, clock
from checkpoints.enums import AuditKind, Role
from checkpoints.files import exporting
from checkpoints.queries import sessions
from checkpoints.queries.sessions import SessionHead
from harness_site.accounts import secrecy, trail
from harness_site.accounts.guard import MemberRequest, able
from harness_site.attachments import CSV, HTML, JSONL, attachment
from harness_site.rendering import masking
from harness_site.rendering.text import visible
from harness_site.sessions import filters, jsonl, offline, spreadsheet
from harness_site.sessions.lookup import Missing, headline, reader

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


@require_GET
@reader
def session(request: MemberRequest, pk: int, form: str) -> HttpResponseBase:
    """`form` is one of `FORMS`."""
    head = headline(request, pk)
    if form not in FORMS:
        raise Missing("Sessions are not exported in this form.", "There are jsonl, html and file.", head)
    return FORMS[form](request, head)


@require_GET
@reader
def listed(request: MemberRequest) -> HttpResponseBase:
    """CSV of every session that the list's filter finds, sent while it is read."""
    workspace = request.membership.workspace_id
    wanted = filters.wanted(workspace, request.GET)
    matching = filters.matching_keys(workspace, request.GET)
    trail.record(request.membership, AuditKind.EXPORTED, request=request, what="sessions", filters=_narrowed(request))
    chosen = sessions.chosen(workspace, wanted, only=matching)
    rows = spreadsheet.lines(sessions.each(workspace, chosen))
    name = f"sessions-{request.membership.workspace.slug}-{clock.now():%Y-%m-%d}.csv"
    return attachment(rows, CSV, name, total=f"record {len(chosen)}")


def _narrowed(request: MemberRequest) -> str:
    """The filters of the list, for the entry; what was searched for is nobody's business."""
    query = request.GET.copy()
    if query.pop("q", None):
        query["q"] = "*"
    return query.urlencode(safe="*")[:300]


def _jsonl(request: MemberRequest, head: SessionHead) -> HttpResponseBase:
    _tell(request, head, "jsonl")
    # Beside these a few more: runs, decisions, events.
    records = head.row.messages + head.versions + head.calls
    return attachment(jsonl.lines(head.row.pk), JSONL, _name(head, "jsonl"), total=f"record {records}")


def _html(request: MemberRequest, head: SessionHead) -> HttpResponseBase:
    _tell(request, head, "html")
    return attachment(offline.pieces(head), HTML, _name(head, "html"), total=f"message {head.row.messages}")


def _file(request: MemberRequest, head: SessionHead) -> HttpResponseBase:
    """Exactly what is stored, so only for who is shown secrets."""
    if masking.masks():
        role = Role(secrecy.settings_of(request.membership.workspace).reveal_role)
        may = secrecy.state(request, request.membership).may_show
        context = {"head": head, "tab": "", "may": may, "role": role, "able": able(request.membership.workspace, role)}
        return render(request, "sessions/export_masked.html", context, status=403)
    store = SyncCheckpointer(workspace=request.membership.workspace.slug).store
    with TemporaryDirectory() as folder:
        path = Path(folder) / "session"
        exported = exporting.export(store, head.row.session_id, path, audited=False)
        _tell(request, head, "file", version=exported.version, digest=exported.digest)
        # The open file stays when its name goes.
        return FileResponse(path.open("rb"), as_attachment=True, filename=_name(head, "session"))


FORMS: Final[dict[str, Callable[[MemberRequest, SessionHead], HttpResponseBase]]] = {
    "jsonl": _jsonl,
    "html": _html,
    "file": _file,
}


def _tell(request: MemberRequest, head: SessionHead, form: str, **more: str | int) -> None:
    kind = AuditKind.EXPORTED
    trail.record(request.membership, kind, request=request, session_pk=head.row.pk, what="session", form=form, **more)


def _name(head: SessionHead, ending: str) -> str:
    """A name of letters that every system takes."""
    plain = _UNFIT.sub("-", visible(head.row.session_id)).strip("-.")[:80] or "session"
    return f"{plain}-v{head.row.version}.{ending}"
