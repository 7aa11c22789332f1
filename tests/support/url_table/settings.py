"""URLs of the workspace settings."""

from typing import Final

from tests.support.url_table.line import line

LINES: Final = (
    line("settings/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("settings/members/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line(
        "settings/members/<int:pk>/role/",
        "302 302 302 302 302 302",
        "302 403 403 403 422 302",
        "/settings/members/{member}/role/",
    ),
    line(
        "settings/members/<int:pk>/remove/",
        "302 302 302 302 302 302",
        "302 403 403 403 302 302",
        "/settings/members/{member}/remove/",
    ),
    line(
        "settings/members/<int:pk>/reset-factors/",
        "302 302 302 302 302 302",
        "302 403 403 403 302 302",
        "/settings/members/{member}/reset-factors/",
    ),
    line(
        "settings/members/<int:pk>/deactivate/",
        "302 302 302 302 302 302",
        "302 403 403 403 302 302",
        "/settings/members/{member}/deactivate/",
    ),
    line(
        "settings/members/<int:pk>/reactivate/",
        "302 302 302 302 302 302",
        "302 403 403 403 302 302",
        "/settings/members/{member}/reactivate/",
    ),
    line("settings/members/second-factor/", "302 302 302 302 302 302", "302 403 403 403 422 302"),
    line("settings/first-steps/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line("settings/connect/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line("settings/system/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line("settings/system/mail/", "302 302 302 302 302 302", "302 403 403 403 422 302"),
    line("settings/invitations/", "302 302 302 302 302 302", "302 403 403 403 422 302"),
    line(
        "settings/invitations/<int:pk>/replace/",
        "302 302 302 302 302 302",
        "302 403 403 403 302 302",
        "/settings/invitations/{invitation}/replace/",
    ),
    line(
        "settings/invitations/<int:pk>/revoke/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/invitations/{invitation}/revoke/",
    ),
    line("settings/notifications/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line("settings/notifications/create/", "302 302 302 302 302 302", "302 403 403 403 422 302"),
    line(
        "settings/notifications/<int:pk>/edit/",
        "302 403 403 403 200 302",
        "302 403 403 403 422 302",
        "/settings/notifications/{webhook}/edit/",
    ),
    line(
        "settings/notifications/<int:pk>/test/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/{webhook}/test/",
    ),
    line(
        "settings/notifications/<int:pk>/pause/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/{webhook}/pause/",
    ),
    line(
        "settings/notifications/<int:pk>/resume/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/{webhook}/resume/",
    ),
    line(
        "settings/notifications/<int:pk>/delete/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/{webhook}/delete/",
    ),
    line("settings/notifications/log/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line(
        "settings/notifications/log/<uuid:pk>/again/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/log/{delivery}/again/",
    ),
    line("settings/masking/", "302 403 403 403 200 302", "302 403 403 403 422 302"),
    line("settings/tokens/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line("settings/tokens/create/", "302 302 302 302 302 302", "302 403 403 403 422 302"),
    line(
        "settings/tokens/<int:pk>/revoke/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/tokens/{token}/revoke/",
    ),
)

#: URLs with an object of another workspace.
FOREIGN: Final = (
    ("/settings/members/{foreign_member}/role/", "post"),
    ("/settings/members/{foreign_member}/remove/", "post"),
    ("/settings/members/{foreign_member}/reset-factors/", "post"),
    ("/settings/members/{foreign_member}/deactivate/", "post"),
    ("/settings/members/{foreign_member}/reactivate/", "post"),
    ("/settings/invitations/{foreign_invitation}/replace/", "post"),
    ("/settings/invitations/{foreign_invitation}/revoke/", "post"),
    ("/settings/tokens/{foreign_token}/revoke/", "post"),
    ("/settings/notifications/{foreign_webhook}/edit/", "get"),
    ("/settings/notifications/{foreign_webhook}/edit/", "post"),
    ("/settings/notifications/{foreign_webhook}/test/", "post"),
    ("/settings/notifications/{foreign_webhook}/pause/", "post"),
    ("/settings/notifications/{foreign_webhook}/resume/", "post"),
    ("/settings/notifications/{foreign_webhook}/delete/", "post"),
    ("/settings/notifications/log/{foreign_delivery}/again/", "post"),
)
