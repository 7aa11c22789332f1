"""Error pages: what happened, whether anything was lost, what to do."""

import sys
from typing import Final

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseServerError
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin
from django.views.decorators.csrf import requires_csrf_token

from checkpoints.db import clock
from checkpoints.exceptions import StorageUnavailable
from checkpoints.models.translated_enum_choices import translate_label
from harness_site.accounts.permissions import RoleTooSmall, list_active_usernames_with_role_or_higher
from harness_site.accounts.refuse_page_of_other_reader import refuse_page_of_other_reader
from harness_site.accounts.sign_in_required_middleware import refuse_fragment_of_signed_out_reader
from harness_site.core import formatting
from harness_site.core.distinguish_site_from_project_requests import is_site_request
from harness_site.core.redact_secrets_in_one_time_links import hide_secrets_in_one_time_links
from harness_site.installation.database_readiness import RETRY_SECONDS, StartupProblem, does_database_answer

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
        "needed": translate_label(exception.needed),
        "able": list_active_usernames_with_role_or_higher(membership.workspace, exception.needed),
    }
    return render(request, "errors/403_role.html", context, status=403)


@requires_csrf_token
def show_page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "errors/404.html", status=404)


class MethodNotAllowedMiddleware(MiddlewareMixin):
    """Shows an error page where a browser opens the address of a form; without it, Django answers with an empty one."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_empty_page = (
            isinstance(response, HttpResponseNotAllowed)
            and request.method == "GET"
            and "text/html" in request.headers.get("Accept", "")
            and is_site_request(request)
        )
        if not is_empty_page:
            return response
        page = render(request, "errors/405.html", status=405)
        page.headers["Allow"] = response.headers["Allow"]
        return page


def show_server_error(request: HttpRequest) -> HttpResponse:
    # Rendered without the request, so that the cause of the error cannot fail again here.
    if not _is_caused_by_unavailable_database(sys.exception()):
        context = {
            "time": formatting.format_utc_time(clock.now()),
            "path": hide_secrets_in_one_time_links(request.path),
        }
        return HttpResponseServerError(render_to_string("errors/500.html", context))
    page = render_to_string("errors/database_away.html", {"advice": StartupProblem.DATABASE.advice})
    return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_SECONDS)})


def _is_caused_by_unavailable_database(error: BaseException | None) -> bool:
    # The pool has waited for the database already.
    if isinstance(error, StorageUnavailable) or type(getattr(error, "__cause__", None)).__name__ == "PoolTimeout":
        return True
    return isinstance(error, OperationalError | InterfaceError) and not does_database_answer()


def show_csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    # A sign-in as another user replaces the token, too.
    if (refusal := refuse_page_of_other_reader(request)) is not None:
        return refusal
    # People without an account use the pages below /accounts/, so there a missing sign-in explains nothing.
    is_signed_out = not request.user.is_authenticated and not request.path.startswith(
        reverse("harness_accounts:account")
    )
    if is_signed_out and request.headers.get("HX-Request"):
        return refuse_fragment_of_signed_out_reader()
    if not request.headers.get("HX-Request"):
        return render(request, "errors/403_csrf.html", {"signed_out": is_signed_out}, status=403)
    if request.resolver_match is not None and request.resolver_match.url_name == _BY_ITSELF:
        # An automatic request: the page fetches a fresh token and continues.
        return HttpResponse(status=403, headers={"HX-Reswap": "none", "HX-Trigger": "live:any"})
    # A note beside the submitted form, and a fresh token for it; the typed text stays in place.
    note = render(request, "errors/csrf_note.html", status=403)
    for name, value in _BESIDE_THE_FORM.items():
        note.headers[name] = value
    return note
