from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from harness_site.accounts.refuse_page_of_other_reader import refuse_page_of_other_reader
from harness_site.core.distinguish_site_from_project_requests import is_site_request


def refuse_fragment_of_signed_out_reader() -> HttpResponse:
    """Return the response to an HTMX request without a sign-in, by which the page says so and keeps what was typed."""
    return HttpResponse(_("You are signed out."), status=401, content_type="text/plain; charset=utf-8")


class SignInRequired(LoginRequiredMiddleware):
    """Middleware that requires a login for the site's views, but not for those of a host project.

    An HTMX request gets 401 instead of the login form, so that a page whose session has ended keeps its content and
    what was typed into it. After another form, the sign-in says that nothing was saved. A request from a page that was
    rendered for another reader is refused.
    """

    def get_login_url(self, view_func: Callable[..., HttpResponseBase]) -> str:
        """Return the name of the site's sign-in: a project that includes the site may have another `LOGIN_URL`."""
        return str(getattr(view_func, "login_url", None) or "harness_accounts:login")

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., HttpResponseBase],
        view_args: tuple[Any, ...],
        view_kwargs: dict[Any, Any],
    ) -> HttpResponseBase | None:
        if not is_site_request(request):
            return None
        login_response = super().process_view(request, view_func, view_args, view_kwargs)
        if login_response is not None and request.headers.get("HX-Request"):
            return refuse_fragment_of_signed_out_reader()
        if isinstance(login_response, HttpResponseRedirect) and request.method == "POST":
            return HttpResponseRedirect(f"{login_response.url}&not-saved")
        return login_response or refuse_page_of_other_reader(request)
