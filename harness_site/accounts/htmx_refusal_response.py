"""Answer to a request that an open page sends, and that its page shows without losing what was typed into it."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse

#: Header of requests that a script sends, which names the reader of the page, and of the refusal.
HEADER: Final = "Harness-Reader"
STATUS: Final = 412
#: Header of a refusal that ends with the set-up of a second factor: the address of the page that leads to it.
SET_UP_HEADER: Final = "Harness-Second-Factor"


def build_refused_fragment(request: HttpRequest, sentence: str) -> HttpResponse:
    """Build the refusal of an HTMX request: the sentence, and a header that names the user who reads now.

    The page keeps its content and what was typed into it, and sends nothing more until it is loaded again.
    """
    headers = {HEADER: str(request.user.pk)}
    return HttpResponse(sentence, status=STATUS, content_type="text/plain; charset=utf-8", headers=headers)
