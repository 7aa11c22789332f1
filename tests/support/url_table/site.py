"""URLs without a module of their own."""

from typing import Final

from tests.support.url_table.line import line

LINES: Final = (
    line("", "302 403 302 302 302 302", "302 405 405 405 405 302"),
    line("health/", "200 200 200 200 200 200", "405 405 405 405 405 405"),
    line("health/live", "200 200 200 200 200 200", "405 405 405 405 405 405"),
    line("health/ready", "200 200 200 200 200 200", "405 405 405 405 405 405"),
    line("words.js", "200 200 200 200 200 200", "405 405 405 405 405 405"),
    line("overview/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("saved/<str:page>/", "302 405 405 405 405 302", "302 403 302 302 302 302", "/saved/sessions/"),
    line("saved/<str:page>/update/", "302 405 405 405 405 302", "302 403 404 404 404 302", "/saved/sessions/update/"),
    line(
        "saved/views/<int:pk>/rename/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/saved/views/{view}/rename/",
    ),
    line(
        "saved/views/<int:pk>/remove/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/saved/views/{view}/remove/",
    ),
    line("calls/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("calls/export/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("audit/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("audit/verify/", "302 405 405 405 405 302", "302 403 302 302 302 302"),
    line("audit/export/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
)

#: URLs with an object of another workspace.
FOREIGN: Final = (
    ("/saved/views/{foreign_view}/remove/", "post"),
    ("/saved/views/{foreign_view}/rename/", "post"),
)
