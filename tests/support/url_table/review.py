"""URLs of the review queue, its cards, and outages."""

from typing import Final

from tests.support.url_table.line import line

LINES: Final = (
    line("review/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line(
        "review/news/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/review/news/?since=2025-03-04T10:00:00Z",
    ),
    line("review/approvals/", "302 403 200 200 200 302", "302 403 403 422 422 302"),
    line("review/count/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line(
        "review/evidence/<int:pk>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/review/evidence/{file}/",
    ),
    line(
        "review/outages/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/review/outages/?tool=x&from=2025-03-04T10:00:00Z&to=2025-03-04T11:00:00Z",
    ),
    line("review/outages/verify/", "302 405 405 405 405 302", "302 403 403 400 400 302"),
    line("review/outages/settle/", "302 405 405 405 405 302", "302 403 403 400 400 302"),
    line("review/outages/decide/", "302 405 405 405 405 302", "302 403 403 400 400 302"),
    line("review/approvals/", "302 403 200 200 200 302", "302 403 403 422 422 302"),
    line("review/bulk/<int:pk>/", "302 403 200 200 200 302", "302 403 403 422 422 302", "/review/bulk/{bulk}/"),
    line("review/calls/<int:pk>/", "302 403 200 200 200 302", "302 403 403 422 422 302", "/review/calls/{call}/"),
    line(
        "review/calls/<int:pk>/claim/",
        "302 405 405 405 405 302",
        "302 403 403 302 302 302",
        "/review/calls/{call}/claim/",
    ),
    line(
        "review/calls/<int:pk>/release/",
        "302 405 405 405 405 302",
        "302 403 403 302 302 302",
        "/review/calls/{call}/release/",
    ),
    line(
        "review/calls/<int:pk>/present/",
        "302 405 405 405 405 302",
        "302 403 200 200 200 302",
        "/review/calls/{call}/present/",
    ),
    line(
        "review/calls/<int:pk>/comment/",
        "302 405 405 405 405 302",
        "302 403 403 422 422 302",
        "/review/calls/{call}/comment/",
    ),
    line(
        "review/calls/<int:pk>/hand-over/",
        "302 405 405 405 405 302",
        "302 403 403 422 422 302",
        "/review/calls/{call}/hand-over/",
    ),
    line(
        "review/calls/<int:pk>/withdraw/",
        "302 405 405 405 405 302",
        "302 403 403 422 422 302",
        "/review/calls/{call}/withdraw/",
    ),
    line(
        "review/calls/<int:pk>/change/",
        "302 405 405 405 405 302",
        "302 403 403 200 200 302",
        "/review/calls/{call}/change/",
    ),
    line(
        "review/calls/<int:pk>/restore/",
        "302 405 405 405 405 302",
        "302 403 403 422 422 302",
        "/review/calls/{call}/restore/",
    ),
    line(
        "review/calls/<int:pk>/verify/",
        "302 405 405 405 405 302",
        "302 403 403 302 302 302",
        "/review/calls/{call}/verify/",
    ),
)

#: URLs with an object of another workspace.
FOREIGN: Final = (
    ("/review/calls/{foreign_call}/", "get"),
    ("/review/calls/{foreign_call}/", "post"),
    ("/review/evidence/{foreign_file}/", "get"),
    ("/review/calls/{foreign_call}/claim/", "post"),
    ("/review/calls/{foreign_call}/release/", "post"),
    ("/review/calls/{foreign_call}/present/", "post"),
    ("/review/calls/{foreign_call}/comment/", "post"),
    ("/review/calls/{foreign_call}/hand-over/", "post"),
    ("/review/calls/{foreign_call}/withdraw/", "post"),
    ("/review/calls/{foreign_call}/change/", "post"),
    ("/review/calls/{foreign_call}/restore/", "post"),
    ("/review/calls/{foreign_call}/verify/", "post"),
)
