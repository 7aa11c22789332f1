"""URL names that django-allauth itself reverses; therefore outside of any namespace."""

from allauth.account.views import account_inactive, password_set, reauthenticate
from allauth.mfa.base.views import authenticate
from allauth.mfa.base.views import reauthenticate as reauthenticate_by_code
from allauth.mfa.recovery_codes.views import generate_recovery_codes, view_recovery_codes
from allauth.mfa.totp.views import activate_totp, deactivate_totp
from allauth.mfa.webauthn.views import add_webauthn, edit_webauthn, reauthenticate_webauthn
from allauth.socialaccount.providers.openid_connect.views import callback, login
from allauth.socialaccount.views import login_cancelled
from django.urls import path

from harness_site.accounts.views import own_account, remove_passkey, sign_in_and_sign_out

urlpatterns = [
    path("", own_account.show_account, name="mfa_index"),
    path("", own_account.show_account, name="mfa_list_webauthn"),
    path("login/", sign_in_and_sign_out.sign_in, name="account_login"),
    path("login/code/", authenticate, name="mfa_authenticate"),
    path("login/passkey/", sign_in_and_sign_out.passkey_sign_in, name="mfa_login_webauthn"),
    path("logout/", sign_in_and_sign_out.log_out, name="account_logout"),
    path("inactive/", account_inactive, name="account_inactive"),
    path("password/", own_account.change_password, name="account_change_password"),
    path("password/set/", password_set, name="account_set_password"),
    path("again/", reauthenticate, name="account_reauthenticate"),
    path("again/code/", reauthenticate_by_code, name="mfa_reauthenticate"),
    path("again/passkey/", reauthenticate_webauthn, name="mfa_reauthenticate_webauthn"),
    path("app/", activate_totp, name="mfa_activate_totp"),
    path("app/remove/", deactivate_totp, name="mfa_deactivate_totp"),
    path("codes/", view_recovery_codes, name="mfa_view_recovery_codes"),
    path("codes/new/", generate_recovery_codes, name="mfa_generate_recovery_codes"),
    path("passkeys/add/", add_webauthn, name="mfa_add_webauthn"),
    path("passkeys/<int:pk>/", edit_webauthn, name="mfa_edit_webauthn"),
    path("passkeys/<int:pk>/remove/", remove_passkey.remove_passkey, name="mfa_remove_webauthn"),
    path("oidc/cancelled/", login_cancelled, name="socialaccount_login_cancelled"),
    path("oidc/<str:provider_id>/login/", login, name="openid_connect_login"),
    path("oidc/<str:provider_id>/login/callback/", callback, name="openid_connect_callback"),
]
