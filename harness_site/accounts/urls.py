from django.urls import path

from harness_site.accounts.views import (
    accept_invitation,
    first_account_and_sign_in_link,
    own_account,
    required_second_factor,
    reveal_secrets,
    sign_in_and_sign_out,
    switch_workspace,
)

app_name = "harness_accounts"
urlpatterns = [
    path("", own_account.show_account, name="account"),
    path("login/", sign_in_and_sign_out.sign_in, name="login"),
    path("logout/", sign_in_and_sign_out.log_out, name="logout"),
    path("first/<str:token>/", first_account_and_sign_in_link.create_first_account, name="first-account"),
    path("link/<str:token>/", first_account_and_sign_in_link.sign_in_by_link, name="sign-in-link"),
    path("invitations/<str:secret>/", accept_invitation.show_or_accept_invitation, name="invitation"),
    path("workspace/", switch_workspace.switch_workspace, name="switch-workspace"),
    path(
        "workspace/<str:workspace>/<path:place>",
        switch_workspace.open_link_or_ask_to_switch_workspace,
        name="enter-workspace",
    ),
    path("second-factor/", required_second_factor.show_required_second_factor, name="required-factor"),
    path("secrets/", reveal_secrets.start_showing_secrets, name="reveal-secrets"),
    path("secrets/hide/", reveal_secrets.stop_showing_secrets, name="hide-secrets"),
    path("sign-ins/end/", own_account.end_one_or_all_other_sessions, name="end-sign-ins"),
]
