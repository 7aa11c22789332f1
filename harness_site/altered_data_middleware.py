"""Middleware that shows which row was altered, in place of a page that would show that row."""

import logging
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

from checkpoints.exceptions import DecisionNotSigned, IntegrityError, RowNotSealed, SealError
from checkpoints.integrity import quarantine
from harness_site.core.management_command_hints import format_management_command

logger = logging.getLogger(__name__)


class AlteredDataMiddleware(MiddlewareMixin):
    """Shows which row is not as the library wrote it, in place of a page that would show that row."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, SealError):
            return None
        logger.error("The page %s was not shown: %s", request.path, exception.detail)
        context: dict[str, Any] = {
            "problem": _describe_seal_problem(exception),
            "hint": _describe_seal_remedy(exception),
        }
        session_pk = getattr(request, "session_shown", None)
        if session_pk is not None and isinstance(exception, IntegrityError) and exception.is_alteration:
            context["quarantined"] = session_pk if quarantine.quarantine_after_error(session_pk) else None
        return render(request, "errors/altered.html", context, status=409)


def _describe_seal_problem(error: SealError) -> str:
    if isinstance(error, RowNotSealed):
        return _("Row {row} of the table {table} has no seal.").format(row=error.row, table=error.table)
    if isinstance(error, DecisionNotSigned):
        return _("Row {row} of the table {table} depends on a decision that this site has not signed.").format(
            row=error.row, table=error.table
        )
    if isinstance(error, IntegrityError):
        return _("Row {row} of the table {table} is not as it was written.").format(row=error.row, table=error.table)
    return _("The seals cannot be checked, because this site does not have the key that made them.")


def _describe_seal_remedy(error: SealError) -> str:
    if isinstance(error, RowNotSealed):
        return _(
            "If the row is from before sealing, an operator runs {command}. Otherwise somebody has changed the "
            "database without this program."
        ).format(command=format_management_command("seal_sessions"))
    if isinstance(error, DecisionNotSigned):
        return _(
            "If the decision is from before signing, an operator runs {command}. Otherwise somebody has written it "
            "without this site."
        ).format(command=format_management_command("sign_decisions"))
    if isinstance(error, IntegrityError):
        return _(
            "Tell an operator: somebody has changed the database without this program, or it is damaged. "
            "{command} lists all such rows; a backup shows what they were."
        ).format(command=format_management_command("verify_integrity"))
    return _("An operator has to give this site the same HARNESS_SEAL_KEY as the agents have.")
