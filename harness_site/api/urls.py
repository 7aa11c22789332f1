from collections.abc import Iterator
from functools import partial

from django.urls import URLPattern, path, re_path

from harness_site.api import views
from harness_site.api.api import api, list_query_parameters
from harness_site.api.request_pipeline import refuse_route, serve_route

app_name = "harness_api"


def _guard_routes() -> Iterator[URLPattern]:
    """Serve each route of the API with everything that all routes have in common."""
    for pattern in api.urls[0]:
        if isinstance(pattern, URLPattern) and pattern.name != "api-root":
            view = serve_route(pattern.callback, partial(list_query_parameters, str(pattern.pattern)))
            yield URLPattern(pattern.pattern, view, pattern.default_args, pattern.name)


urlpatterns = [
    path("openapi.json", views.show_openapi_document, name="openapi"),
    path("", views.show_reference, name="reference"),
    *_guard_routes(),
    re_path(r"^(?P<path>.*)$", refuse_route),
]
