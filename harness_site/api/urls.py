from collections.abc import Iterator
from functools import partial

from django.urls import URLPattern, path, re_path

from harness_site.api import openapi_views
from harness_site.api.ninja_api import api, find_operation
from harness_site.api.request_pipeline import raise_route_not_found, wrap_route_view

app_name = "harness_api"


def _wrap_api_routes() -> Iterator[URLPattern]:
    """Serve each route of the API with everything that all routes have in common."""
    for pattern in api.urls[0]:
        if isinstance(pattern, URLPattern) and pattern.name != "api-root":
            view = wrap_route_view(pattern.callback, partial(find_operation, str(pattern.pattern)))
            yield URLPattern(pattern.pattern, view, pattern.default_args, pattern.name)


urlpatterns = [
    path("openapi.json", openapi_views.show_openapi_document, name="openapi"),
    path("", openapi_views.show_api_reference, name="reference"),
    *_wrap_api_routes(),
    re_path(r"^(?P<path>.*)$", raise_route_not_found),
]
