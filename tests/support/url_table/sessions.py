"""URLs of the session list and of single sessions."""

from typing import Final

from tests.support.url_table.line import line

LINES: Final = (
    line("sessions/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("sessions/export/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("sessions/<int:pk>/jump/", "302 403 302 302 302 302", "302 405 405 405 405 302", "/sessions/{session}/jump/"),
    line(
        "sessions/<int:pk>/export/<str:form>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/export/jsonl/",
    ),
    line("sessions/labels/", "302 405 405 405 405 302", "302 403 403 422 422 302"),
    line("sessions/find/", "302 403 302 302 302 302", "302 405 405 405 405 302", "/sessions/find/?id={id}"),
    line("sessions/<int:pk>/", "302 403 200 200 200 302", "302 405 405 405 405 302", "/sessions/{session}/"),
    line(
        "sessions/<int:pk>/messages/<int:position>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/messages/0/",
    ),
    line(
        "sessions/<int:pk>/messages/<int:position>/images/<int:index>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/messages/0/images/1/",
    ),
    line(
        "sessions/<int:pk>/messages/<int:position>/audio/<int:index>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/messages/0/audio/1/",
    ),
    line(
        "sessions/<int:pk>/versions/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/versions/",
    ),
    line(
        "sessions/<int:pk>/files/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/files/",
    ),
    line(
        "sessions/<int:pk>/costs/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/costs/",
    ),
    line(
        "sessions/<int:pk>/subagents/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/subagents/",
    ),
    line(
        "sessions/<int:pk>/compare/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/compare/?a=1&b=2",
    ),
    line(
        "sessions/<int:pk>/calls/", "302 403 200 200 200 302", "302 405 405 405 405 302", "/sessions/{session}/calls/"
    ),
    line(
        "sessions/<int:pk>/calls/<int:call_pk>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/calls/{call}/",
    ),
    line(
        "sessions/<int:pk>/quarantine/",
        "302 403 404 404 404 302",
        "302 403 404 404 404 302",
        "/sessions/{session}/quarantine/",
    ),
    line("sessions/<int:pk>/fork/", "302 403 200 200 200 302", "302 403 403 422 422 302", "/sessions/{session}/fork/"),
    line(
        "sessions/<int:pk>/timeline/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/timeline/",
    ),
    line(
        "sessions/<int:pk>/workflows/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/workflows/",
    ),
    line(
        "sessions/<int:pk>/peers/", "302 403 200 200 200 302", "302 405 405 405 405 302", "/sessions/{session}/peers/"
    ),
    line("sessions/<int:pk>/plan/", "302 403 200 200 200 302", "302 405 405 405 405 302", "/sessions/{session}/plan/"),
    line(
        "sessions/<int:pk>/history/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/history/",
    ),
)

#: URLs with an object of another workspace.
FOREIGN: Final = (
    ("/sessions/{foreign_session}/", "get"),
    ("/sessions/{foreign_session}/messages/0/", "get"),
    ("/sessions/{foreign_session}/messages/0/images/1/", "get"),
    ("/sessions/{foreign_session}/messages/0/audio/1/", "get"),
    ("/sessions/{foreign_session}/jump/?to=error", "get"),
    ("/sessions/{foreign_session}/export/jsonl/", "get"),
    ("/sessions/{foreign_session}/export/html/", "get"),
    ("/sessions/{foreign_session}/export/print/", "get"),
    ("/sessions/{foreign_session}/export/file/", "get"),
    ("/sessions/{foreign_session}/versions/", "get"),
    ("/sessions/{foreign_session}/compare/?a=1&b=2", "get"),
    ("/sessions/{foreign_session}/calls/", "get"),
    ("/sessions/{foreign_session}/calls/{foreign_call}/", "get"),
    ("/sessions/{session}/calls/{foreign_call}/", "get"),
    ("/sessions/{foreign_session}/fork/", "get"),
    ("/sessions/{foreign_session}/quarantine/", "get"),
    ("/sessions/{foreign_session}/quarantine/", "post"),
    ("/sessions/{foreign_session}/fork/", "post"),
    ("/sessions/{foreign_session}/timeline/", "get"),
    ("/sessions/{foreign_session}/workflows/", "get"),
    ("/sessions/{foreign_session}/peers/", "get"),
    ("/sessions/{foreign_session}/plan/", "get"),
    ("/sessions/{foreign_session}/history/", "get"),
    ("/sessions/find/?id={foreign_id}", "get"),
)
