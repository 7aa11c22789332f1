"""Settings that the site's pages need in whatever Django project they are: nothing here depends on the machine.

`harness_site.settings` uses them, and so does a project that includes the pages (`docs/embedding.md`):
`from harness_site.site_settings import *`, then its own `INSTALLED_APPS`, `MIDDLEWARE` and `TEMPLATES` from the lists.
"""

from typing import Any

from harness_site.env import BASE_DIR, IS_CHECKOUT

#: Beside `auth`, `contenttypes`, `sessions` and `staticfiles` of Django.
HARNESS_APPS = [
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "csp",
    "django_htmx",
    # Before the library: its `export_session` writes more forms.
    "harness_site",
    "checkpoints",
    "harness_site.accounts",
    "harness_site.audit",
    "harness_site.live",
    "harness_site.notifications",
    "harness_site.overview",
    "harness_site.review",
    "harness_site.saved",
    "harness_site.search",
    "harness_site.sessions",
]
#: In this order. Middleware of the project goes before or after what belongs together here.
HARNESS_MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "harness_site.security.PrivateResponses",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "harness_site.accounts.middleware.SignInRequired",
    "harness_site.audit.reading.ReadingIsRecorded",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
HARNESS_TEMPLATE_BUILTINS = ["django.templatetags.static", "harness_site.templatetags.harness"]
HARNESS_CONTEXT_PROCESSORS = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "harness_site.security.nonce",
]
#: In a checkout of the sources; in a wheel they lie inside the package, where Django's app loaders find them.
HARNESS_TEMPLATE_DIRS = [BASE_DIR / "templates"] if IS_CHECKOUT else []
HARNESS_STATIC_DIRS = [BASE_DIR / "static"] if IS_CHECKOUT else []

# ------------------------------------------------------------------------------------------------ sign-in

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
SESSION_SERIALIZER = "django.contrib.sessions.serializers.JSONSerializer"
ACCOUNT_ADAPTER = "harness_site.accounts.adapters.AccountAdapter"
ACCOUNT_FORMS = {
    "login": "harness_site.accounts.forms.SignInForm",
    "reauthenticate": "harness_site.accounts.forms.PasswordAgainForm",
    "change_password": "harness_site.accounts.forms.ChangePasswordForm",
    "set_password": "harness_site.accounts.forms.SetPasswordForm",
}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = False
ACCOUNT_REAUTHENTICATION_TIMEOUT = 900
#: Wrong passwords: from one address, for one name from one address, and for one name from anywhere. Right ones do not
#: count. Links to confirm an address: for one address, and from one person.
ACCOUNT_RATE_LIMITS = {
    "login": "60/m/ip",
    "login_failed": "20/m/ip,5/5m/key",
    "login_failed_anywhere": "100/h/key",
    "confirm_email": "1/m/key,10/h/user",
}
MFA_ADAPTER = "harness_site.accounts.adapters.FactorAdapter"
MFA_FORMS = {
    "authenticate": "harness_site.accounts.forms.CodeForm",
    "reauthenticate": "harness_site.accounts.forms.CodeAgainForm",
    "activate_totp": "harness_site.accounts.forms.FirstCodeForm",
    "authenticate_webauthn": "harness_site.accounts.forms.PasskeyFactorForm",
    "reauthenticate_webauthn": "harness_site.accounts.forms.PasskeyAgainForm",
    "login_webauthn": "harness_site.accounts.forms.PasskeySignInForm",
    "add_webauthn": "harness_site.accounts.forms.PasskeyForm",
    "edit_webauthn": "harness_site.accounts.forms.PasskeyNameForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_TOTP_ISSUER = "Harness"
MFA_TOTP_TOLERANCE = 1
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_PASSKEY_LOGIN_ENABLED = True
# Nobody makes an account by themselves here, and no address is what anybody is known by.
MFA_ALLOW_UNVERIFIED_EMAIL = True
SOCIALACCOUNT_ADAPTER = "harness_site.accounts.adapters.ForeignAccountAdapter"
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_LOGIN_ON_GET = False

# ------------------------------------------------------------------------------------------------ limits

#: How large a file may be that is given as evidence for a decision.
EVIDENCE_BYTES = 5 * 1_048_576

# ------------------------------------------------------------------------------------------------ live, messages

CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
#: Whether a proxy sets `X-Forwarded-For` and `X-Forwarded-Proto` itself on every request.
BEHIND_PROXY = False
#: Without one nobody gets e-mail.
MAIL_SERVER: Any = None
#: Names that webhooks may lead to although they lie inside this network.
WEBHOOK_HOSTS: list[str] = []
