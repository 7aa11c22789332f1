"""Refused form of a saved view, stored in the user session so that the list shows it with the error at its field."""

from dataclasses import asdict, dataclass
from secrets import token_urlsafe
from typing import Any, Final

from django.http import HttpRequest

#: Key of the form in the user session, and the query parameter that names it.
_KEY: Final = "refused_view"
PARAMETER: Final = "refused"


@dataclass(frozen=True, slots=True)
class RefusedViewForm:
    """Name that was refused for the filters `query` of the list `page`, or for the saved view `view`."""

    page: str
    query: str
    name: str
    error: str
    view: int | None = None


def store_refused_form_and_get_token(request: HttpRequest, form: RefusedViewForm) -> str:
    """Store the form in place of the previous one; return the value of `PARAMETER` by which the list shows it."""
    token = token_urlsafe(6)
    request.session[_KEY] = {"token": token, "form": asdict(form)}
    return token


def load_refused_form(request: HttpRequest, page: str, query: str) -> RefusedViewForm | None:
    """Load the form that this list with these filters has to show; None if there is none."""
    token, stored = request.GET.get(PARAMETER, ""), None
    if token:
        stored = request.session.get(_KEY)
    if stored is None or stored["token"] != token:
        return None
    fields: dict[str, Any] = stored["form"]
    form = RefusedViewForm(**fields)
    return form if (form.page, form.query) == (page, query) else None
