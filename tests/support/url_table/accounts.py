"""URLs of sign-in, of one's own account, and of the choice of workspace."""

from typing import Final

from tests.support.url_table.line import line

LINES: Final = (
    line("accounts/", "302 200 200 200 200 302", "302 405 405 405 405 302"),
    line("accounts/login/", "200 302 302 302 302 200", "200 302 302 302 302 200"),
    line("accounts/login/code/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/login/passkey/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/logout/", "405 405 405 405 405 405", "302 302 302 302 302 302"),
    line("accounts/inactive/", "200 200 200 200 200 200", "405 405 405 405 405 405"),
    line(
        "accounts/invitations/<str:secret>/",
        "404 404 404 404 404 404",
        "404 404 404 404 404 404",
        "/accounts/invitations/invite_none/",
    ),
    line(
        "accounts/first/<str:token>/",
        "404 404 404 404 404 404",
        "404 404 404 404 404 404",
        "/accounts/first/none/",
    ),
    line(
        "accounts/link/<str:token>/",
        "404 404 404 404 404 404",
        "405 405 405 405 405 405",
        "/accounts/link/none/",
    ),
    line("accounts/workspace/", "302 405 405 405 405 302", "302 404 404 404 404 302"),
    line(
        "accounts/workspace/<str:workspace>/<path:place>",
        "302 404 302 302 302 302",
        "302 405 405 405 405 302",
        "/accounts/workspace/default/review/",
    ),
    line("accounts/second-factor/", "302 302 302 302 302 302", "302 405 405 405 405 302"),
    line("accounts/secrets/", "302 405 405 405 405 302", "302 403 403 403 302 302"),
    line("accounts/secrets/hide/", "302 405 405 405 405 302", "302 403 302 302 302 302"),
    line("accounts/sign-ins/end/", "302 405 405 405 405 302", "302 302 302 302 302 302"),
    line("accounts/display/", "302 200 200 200 200 302", "302 302 302 302 302 302"),
    line("accounts/notifications/", "302 200 200 200 200 302", "302 302 302 302 302 302"),
    line("accounts/notifications/confirm/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line(
        "accounts/notifications/confirm/<str:token>/",
        "302 404 404 404 404 302",
        "302 404 404 404 404 302",
        "/accounts/notifications/confirm/none/",
    ),
    line("accounts/password/", "302 200 200 200 200 302", "302 200 200 200 200 302"),
    line("accounts/password/set/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/again/", "302 200 200 200 200 302", "302 200 200 200 200 302"),
    line("accounts/again/code/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/again/passkey/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/app/", "302 200 200 200 200 302", "302 200 200 200 200 302"),
    line("accounts/app/remove/", "302 404 404 404 404 302", "302 404 404 404 404 302"),
    line("accounts/codes/", "302 404 404 404 404 302", "302 405 405 405 405 302"),
    line("accounts/codes/new/", "302 200 200 200 200 302", "302 200 200 200 200 302"),
    line("accounts/passkeys/add/", "302 200 200 200 200 302", "302 200 200 200 200 302"),
    line("accounts/passkeys/<int:pk>/", "302 404 404 404 404 302", "302 404 404 404 404 302", "/accounts/passkeys/1/"),
    line(
        "accounts/passkeys/<int:pk>/remove/",
        "302 404 404 404 404 302",
        "302 404 404 404 404 302",
        "/accounts/passkeys/1/remove/",
    ),
    line("accounts/oidc/cancelled/", "200 200 200 200 200 200", "405 405 405 405 405 405"),
    line(
        "accounts/oidc/<str:provider_id>/login/",
        "404 404 404 404 404 404",
        "404 404 404 404 404 404",
        "/accounts/oidc/sso/login/",
    ),
    line(
        "accounts/oidc/<str:provider_id>/login/callback/",
        "404 404 404 404 404 404",
        "404 404 404 404 404 404",
        "/accounts/oidc/sso/login/callback/",
    ),
)
