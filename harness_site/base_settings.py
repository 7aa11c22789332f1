"""Settings that the site's pages need in any Django project, independent of the machine.

`harness_site.settings` uses them, and so does a project that includes the pages (`docs/embedding.md`): it begins with
`from harness_site.base_settings import *`, so that this replaces nothing, and adds the lists to its own later. No
setting of Django belongs here, only those of django-allauth and of the site: all are listed on that page.
"""

from typing import Any as _Any

from harness_site import env as _env
from harness_site.serving.server_limits_from_environment import ServerLimits as _ServerLimits

#: Needed beside Django's `auth`, `contenttypes`, `messages`, `sessions` and `staticfiles`.
HARNESS_APPS = [
    # Before allauth and the library, because it overrides templates of the first and a command of the second.
    "harness_site",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "django_htmx",
    "checkpoints",
    "harness_site.accounts",
    "harness_site.api",
    "harness_site.audit",
    "harness_site.installation",
    "harness_site.display",
    "harness_site.live",
    "harness_site.notifications",
    "harness_site.overview",
    "harness_site.review",
    "harness_site.saved_views",
    "harness_site.search",
    "harness_site.sessions",
]
#: The order matters. Middleware of the project goes before or after this group.
HARNESS_MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "harness_site.security_headers.PrivateResponsesMiddleware",
    "harness_site.unmigrated_database_middleware.UnmigratedDatabaseMiddleware",
    "harness_site.api.skip_page_middleware_for_tokens.TokenRequestMiddleware",
    "harness_site.security_headers.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "harness_site.display.middleware.SiteLanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "harness_site.accounts.sign_in_required_middleware.SignInRequired",
    "harness_site.display.middleware.ReaderPreferencesMiddleware",
    "harness_site.audit.session_read_audit_middleware.ReadAuditMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "harness_site.error_pages.MethodNotAllowedMiddleware",
    "harness_site.altered_data_middleware.AlteredDataMiddleware",
]
HARNESS_TEMPLATE_BUILTINS = ["harness_site.templatetags.harness_tags"]
HARNESS_CONTEXT_PROCESSORS = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
    "harness_site.security_headers.provide_csp_nonce_to_templates",
]
#: For a source checkout; in a wheel these lie inside the package, where Django's app loaders find them.
HARNESS_TEMPLATE_DIRS = [_env.BASE_DIR / "templates"] if _env.IS_CHECKOUT else []
HARNESS_STATIC_DIRS = [_env.BASE_DIR / "static"] if _env.IS_CHECKOUT else []

# ------------------------------------------------------------------------------------------------ sign-in

ACCOUNT_ADAPTER = "harness_site.accounts.allauth_adapters.AccountAdapter"
ACCOUNT_FORMS = {
    "login": "harness_site.accounts.account_and_login_forms.SignInForm",
    "reauthenticate": "harness_site.accounts.account_and_login_forms.ReauthenticateWithPasswordForm",
    "change_password": "harness_site.accounts.account_and_login_forms.ChangePasswordForm",
    "set_password": "harness_site.accounts.account_and_login_forms.SetPasswordForm",
}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = False
ACCOUNT_REAUTHENTICATION_TIMEOUT = 900
#: Wrong passwords: per address, per name and address, and per name from anywhere. Correct ones do not count.
#: Confirmation links: per e-mail address, and per user.
ACCOUNT_RATE_LIMITS = {
    "login": "60/m/ip",
    "login_failed": "20/m/ip,5/5m/key",
    "login_failed_anywhere": "100/h/key",
    "confirm_email": "1/m/key,10/h/user",
}
MFA_ADAPTER = "harness_site.accounts.allauth_adapters.FactorAdapter"
MFA_FORMS = {
    "authenticate": "harness_site.accounts.account_and_login_forms.CodeForm",
    "reauthenticate": "harness_site.accounts.account_and_login_forms.ReauthenticateWithCodeForm",
    "activate_totp": "harness_site.accounts.account_and_login_forms.FirstCodeForm",
    "authenticate_webauthn": "harness_site.accounts.account_and_login_forms.PasskeyFactorForm",
    "reauthenticate_webauthn": "harness_site.accounts.account_and_login_forms.ReauthenticateWithPasskeyForm",
    "login_webauthn": "harness_site.accounts.account_and_login_forms.PasskeySignInForm",
    "add_webauthn": "harness_site.accounts.account_and_login_forms.PasskeyForm",
    "edit_webauthn": "harness_site.accounts.account_and_login_forms.PasskeyNameForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_TOTP_ISSUER = "Harness"
MFA_TOTP_TOLERANCE = 1
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_PASSKEY_LOGIN_ENABLED = True
# Accounts cannot be created by signing up, and e-mail addresses identify nobody.
MFA_ALLOW_UNVERIFIED_EMAIL = True
SOCIALACCOUNT_ADAPTER = "harness_site.accounts.allauth_adapters.SingleSignOnAccountAdapter"
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_LOGIN_ON_GET = False

# ------------------------------------------------------------------------------------------------ limits

#: Maximum size in bytes of an evidence file.
EVIDENCE_BYTES = 5 * 1_048_576
#: Number of requests that a token may make in a minute, counted by each process; a sixth of them at once.
API_REQUESTS_PER_MINUTE = 30_000
#: Limits on the bodies of requests; the server of the project has limits of its own.
SERVER_LIMITS = _ServerLimits()

# ------------------------------------------------------------------------------------------------ messages

#: True if a proxy sets `X-Forwarded-For` and `X-Forwarded-Proto` itself on every request.
BEHIND_PROXY = False
#: Without a server no e-mail is sent.
MAIL_SERVER: _Any = None
#: Host names that webhooks may use although they resolve to addresses inside this network.
WEBHOOK_HOSTS: list[str] = []
