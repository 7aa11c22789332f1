"""Middleware that shows which row was altered, in place of a page that would show that row."""

import logging
from typing import cast

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

from checkpoints.exceptions import (
    CheckpointCorrupted,
    CheckpointsError,
    DecisionNotSigned,
    IntegrityError,
    RowNotSealed,
    RowNotStored,
    SealError,
    WitnessedSessionMissing,
)
from checkpoints.integrity import quarantine
from checkpoints.models import Session, ToolCall
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.distinguish_site_from_project_requests import is_site_request
from harness_site.core.management_command_as_typed import prefix_management_command_with_program
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.unreadable_rows_and_quarantine import is_error_of_mistyped_value
from harness_site.sessions.session_lookup_masking_and_404 import PageNotFound
from harness_site.sessions.views.quarantine_release import render_quarantine_page_in_place_of_another

#: Errors that no stored value causes.
_OTHER_CAUSES = (CheckpointsError, DatabaseError, Http404, PermissionDenied, SuspiciousOperation)

logger = logging.getLogger(__name__)


class AlteredDataMiddleware(MiddlewareMixin):
    """Shows which row is not as the library wrote it, in place of a page that would show that row."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not is_site_request(request):
            return None
        session_pk = _find_shown_session_pk(request)
        if not isinstance(exception, SealError | CheckpointCorrupted):
            exception = _find_error_of_mistyped_value(request, session_pk, exception) or exception
        if not isinstance(exception, SealError | CheckpointCorrupted):
            return None
        logger.error("The page %s was not shown: %s", request.path, exception.detail)
        problem = _format_problem_sentence(exception)
        if isinstance(exception, IntegrityError) and exception.is_alteration:
            altered_pk = session_pk if exception.session_pk is None else exception.session_pk
            if altered_pk is not None and quarantine.try_quarantine_session_if_altered(altered_pk):
                page = _try_render_quarantine_page(request, altered_pk, problem)
                if page is not None:
                    return page
        context = {"problem": problem, "hint": _describe_remedy(exception)}
        return render(request, "errors/altered.html", context, status=409)


def _try_render_quarantine_page(request: HttpRequest, session_pk: int, problem: str) -> HttpResponse | None:
    """Render the page of a quarantined session; None if the reader is no member of its workspace, or the row of the
    session itself cannot be read."""
    if not hasattr(request, "membership"):
        return None
    try:
        return render_quarantine_page_in_place_of_another(cast("MemberRequest", request), session_pk, problem)
    except (PageNotFound, CheckpointsError, DatabaseError, *quarantine.UNREADABLE_VALUE_ERRORS):
        logger.warning("The page of the quarantined session %s was not shown.", session_pk, exc_info=True)
        return None


def _find_shown_session_pk(request: HttpRequest) -> int | None:
    """Find the session of a page, also if its call could not be read."""
    session_pk: int | None = getattr(request, "session_shown", None)
    call = getattr(request, "call_shown", None)
    if session_pk is not None or call is None:
        return session_pk
    workspace_pk, call_pk = call
    sessions = ToolCall.objects.filter(workspace=workspace_pk, pk=call_pk).values_list("session_id", flat=True)
    return sessions.first()


def _find_error_of_mistyped_value(
    request: HttpRequest, session_pk: int | None, exception: Exception
) -> SealError | CheckpointCorrupted | None:
    """Return the error of a value that has another type than its column, if that is the cause.

    A page that is about no session lists those of the member's workspace.
    """
    membership: Membership | None = getattr(request, "membership", None)
    if isinstance(exception, _OTHER_CAUSES) and not is_error_of_mistyped_value(exception):
        return None
    if session_pk is not None:
        name = Session.objects.filter(pk=session_pk).values_list("session_id", flat=True).first()
        return quarantine.find_mistyped_value_error_of_session("default", session_pk, str(name))
    if membership is not None:
        return quarantine.find_mistyped_value_error_of_workspace("default", membership.workspace_id)
    return None


def _format_problem_sentence(error: SealError | CheckpointCorrupted) -> str:
    if isinstance(error, CheckpointCorrupted):
        return _("A record of the session “{session}” is damaged.").format(
            session=mask_and_reveal_hidden(error.session_id)
        )
    if isinstance(error, RowNotSealed):
        return _("Row {row} of the table {table} has no seal.").format(row=error.row, table=error.table)
    if isinstance(error, DecisionNotSigned):
        return _("Row {row} of the table {table} depends on a decision that this site has not signed.").format(
            row=error.row, table=error.table
        )
    if isinstance(error, WitnessedSessionMissing):
        return _(
            "The session “{session}” was not created: the witness knows a session of this name, and the database does "
            "not have it."
        ).format(session=error.session_id)
    if isinstance(error, RowNotStored):
        return _("Nothing was recorded: the database has not stored a new row of the table {table}.").format(
            table=error.table
        )
    if isinstance(error, IntegrityError):
        return _("Row {row} of the table {table} is not as it was written.").format(row=error.row, table=error.table)
    return _("The seals cannot be checked, because this site does not have the key that made them.")


def _describe_remedy(error: SealError | CheckpointCorrupted) -> str:
    if isinstance(error, CheckpointCorrupted):
        return _(
            "Tell an operator: somebody has changed the database without this program, or it is damaged. A backup "
            "shows what it was."
        )
    if isinstance(error, RowNotSealed):
        return _(
            "If an agent runs without HARNESS_SEAL_KEY, an operator sets it where the agent runs. Then, or if the row "
            "is from before sealing, the operator runs {command}. Otherwise somebody has changed the database without "
            "this program."
        ).format(command=prefix_management_command_with_program("seal_sessions"))
    if isinstance(error, DecisionNotSigned):
        return _(
            "If the decision is from before signing, an operator runs {command}. Otherwise somebody has written it "
            "without this site."
        ).format(command=prefix_management_command_with_program("sign_decisions"))
    if isinstance(error, WitnessedSessionMissing):
        return _(
            "If a backup was restored, an operator runs {command}. Otherwise somebody has deleted, renamed or moved "
            "the session without this program. Choose another name meanwhile."
        ).format(command=prefix_management_command_with_program("witness adopt --session … --missing"))
    if isinstance(error, RowNotStored):
        return _(
            "Tell an operator: the table has a trigger, a rule or a policy that this program has not made, and that "
            "drops what is written."
        )
    if isinstance(error, IntegrityError):
        return _(
            "Tell an operator: somebody has changed the database without this program, or it is damaged. "
            "{command} lists all such rows; a backup shows what they were."
        ).format(command=prefix_management_command_with_program("verify_integrity"))
    return _("An operator has to give this site the same HARNESS_SEAL_KEY as the agents have.")
