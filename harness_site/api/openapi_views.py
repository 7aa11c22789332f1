"""The OpenAPI document, and a page to read it. Both are public: they say nothing about this installation's data."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt

from checkpoints import __version__
from harness_site.api import reference_page_content
from harness_site.api.json_responses import build_json_response
from harness_site.api.openapi_document import build_openapi_document
from harness_site.api.problem_details import READING_METHODS, build_method_not_allowed_problem
from harness_site.site_address import build_absolute_url


def _require_reading_method(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Answer other methods with a problem, as the routes of the API do, and not with a page about a missing cookie."""

    @csrf_exempt
    @wraps(view)
    def call_view_or_refuse_method(request: HttpRequest) -> HttpResponse:
        if request.method in READING_METHODS:
            return view(request)
        return build_method_not_allowed_problem(request, ", ".join(READING_METHODS))

    return call_view_or_refuse_method


@cache
def _get_openapi_document(prefix: str) -> dict[str, Any]:
    return build_openapi_document(prefix)


@_require_reading_method
@login_not_required
def show_openapi_document(request: HttpRequest) -> HttpResponse:
    """Show the OpenAPI document."""
    return build_json_response(_get_openapi_document(reverse("harness_api:reference")))


@_require_reading_method
@login_not_required
def show_api_reference(request: HttpRequest) -> HttpResponse:
    """Show the operations as a page."""
    prefix = reverse("harness_api:reference")
    address = build_absolute_url(prefix).removesuffix(prefix)
    context = {
        "base_url": f"{address}{prefix}".rstrip("/"),
        "version": __version__,
        "topics": reference_page_content.build_topics(address, prefix),
        "example_problem": reference_page_content.render_example_problem(),
        "problems": reference_page_content.list_problems(),
    }
    return render(request, "api/reference.html", context)
