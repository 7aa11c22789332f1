"""Error pages: what happened, whether anything was lost, what to do."""

import logging
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseServerError
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _
from django.views.decorators.csrf import requires_csrf_token

from checkpoints.exceptions import DecisionNotSigned, IntegrityError, RowNotSealed, SealError
from checkpoints.integrity import quarantine
from harness_site.accounts.permissions import RoleTooSmall, list_members_with_role

logger = logging.getLogger(__name__)

#: URL name of the heartbeat that an open card sends automatically.
_BY_ITSELF: Final = "present"
_BESIDE_THE_FORM: Final = {
    "HX-Retarget": "#refusal",
    "HX-Reswap": "innerHTML",
    "HX-Reselect": ".note",
    "HX-Trigger": "live:any",
}


@requires_csrf_token
def show_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "errors/400.html", status=400)


@requires_csrf_token
def show_permission_denied(request: HttpRequest, exception: PermissionDenied) -> HttpResponse:
    if not isinstance(exception, RoleTooSmall):
        return render(request, "errors/403_stranger.html", status=403)
    membership = exception.membership
    context = {
        "membership": membership,
        "needed": exception.needed,
        "able": list_members_with_role(membership.workspace, exception.needed),
    }
    return render(request, "errors/403_role.html", context, status=403)


@requires_csrf_token
def show_page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "errors/404.html", status=404)


def show_server_error(request: HttpRequest) -> HttpResponse:
    # Rendered without the request, so that the cause of the error cannot fail again here.
    return HttpResponseServerError(render_to_string("errors/500.html"))


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
            "If the row is from before sealing, an operator runs harness seal_sessions. Otherwise somebody has "
            "changed the database without this program."
        )
    if isinstance(error, DecisionNotSigned):
        return _(
            "If the decision is from before signing, an operator runs harness sign_decisions. Otherwise somebody has "
            "written it without this site."
        )
    if isinstance(error, IntegrityError):
        return _(
            "Tell an operator: somebody has changed the database without this program, or it is damaged. "
            "harness verify_integrity lists all such rows; a backup shows what they were."
        )
    return _("An operator has to give this site the same HARNESS_SEAL_KEY as the agents have.")


def show_csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    if not request.headers.get("HX-Request"):
        return render(request, "errors/403_csrf.html", status=403)
    if request.resolver_match is not None and request.resolver_match.url_name == _BY_ITSELF:
        # An automatic request: the page fetches a fresh token and continues.
        return HttpResponse(status=403, headers={"HX-Reswap": "none", "HX-Trigger": "live:any"})
    # A note beside the submitted form, and a fresh token for it; the typed text stays in place.
    note = render(request, "errors/csrf_note.html", status=403)
    for name, value in _BESIDE_THE_FORM.items():
        note.headers[name] = value
    return note
