"""Settings of the site, read from environment variables that `docs/operations.md` lists."""

import os
from typing import Any
from urllib.parse import urlsplit

import django

from checkpoints.database_url import database_from_url
from harness_site import (
    env,
    mail_settings,
    oidc_settings,
    secret_key,
    security_headers,
    site_address,
    state_folder_and_secrets,
)
from harness_site.base_settings import *  # noqa: F403 - what is the same in every project
from harness_site.base_settings import (
    HARNESS_APPS,
    HARNESS_CONTEXT_PROCESSORS,
    HARNESS_MIDDLEWARE,
    HARNESS_STATIC_DIRS,
    HARNESS_TEMPLATE_BUILTINS,
    HARNESS_TEMPLATE_DIRS,
)
from harness_site.core.site_languages import SITE_LANGUAGES
from harness_site.read_host_and_origin_settings import (
    read_host_names_or_collect_problem,
    read_origins_or_collect_problem,
)
from harness_site.serving.server_limits_from_environment import read_server_limits_from_environment

BASE_DIR = env.BASE_DIR
# The fallback for a wrong setting is a folder that exists, so that none is created.
STATE_DIR = env.read_or_collect_problem(state_folder_and_secrets.get_state_dir, env.BASE_DIR)

# ------------------------------------------------------------------------------------------------ deployment

DEBUG = env.read_boolean_or_collect_problem("HARNESS_DEBUG", default=False)
#: Public URL of this site; links in messages and invitations start with it.
configured_address = env.read_text_or_collect_problem("HARNESS_ADDRESS")
SITE_ADDRESS = env.read_or_collect_problem(lambda: site_address.validate_and_strip_site_address(configured_address), "")
ALLOWED_HOSTS = read_host_names_or_collect_problem(
    "HARNESS_ALLOWED_HOSTS", site_address.format_default_allowed_hosts(SITE_ADDRESS)
)
CSRF_TRUSTED_ORIGINS = read_origins_or_collect_problem("HARNESS_TRUSTED_ORIGINS")
HTTPS = env.read_boolean_or_collect_problem("HARNESS_HTTPS", default=False)

is_public = not set(ALLOWED_HOSTS) <= site_address.LOCAL_HOSTS
SECRET_KEY = env.read_or_collect_problem(
    lambda: secret_key.read_or_create_secret_key(STATE_DIR, is_public=is_public, is_checked=not DEBUG), "not used"
)
SECRET_KEY_FALLBACKS = env.read_list_or_collect_problem("HARNESS_OLD_SECRET_KEYS")

sqlite_path = str(STATE_DIR / "harness.sqlite3")
database_url = env.read_text_or_collect_problem("HARNESS_DATABASE_URL") or sqlite_path
DATABASES = {
    "default": env.read_or_collect_problem(lambda: database_from_url(database_url), database_from_url(sqlite_path))
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file and not memory, because threads and processes share it. One per process, so that test runs may overlap.
    # Opening the file costs more than most requests; the threads of the server are few.
    DATABASES["default"]["CONN_MAX_AGE"] = None
    if database_url == sqlite_path:  # not the fallback for a wrong URL
        env.read_or_collect_problem(lambda: state_folder_and_secrets.create_state_dir_if_missing(STATE_DIR), None)
    DATABASES["default"]["TEST"] = {"NAME": str(STATE_DIR / f"test-{os.getpid()}.sqlite3")}
else:
    # Prepared statements are planned for their values each time: a generic plan cannot know that a partial index covers
    # the requested values, and reads the whole table instead. With a million sessions and `auto`, the overview took
    # 1.1 s of database time instead of 10 ms, while planning takes 1 to 3 ms of a page. The exception is in
    # `harness_site.api.postgres_query_plan_reuse`.
    DATABASES["default"]["OPTIONS"]["options"] += " -c plan_cache_mode=force_custom_plan"
    # Pages read few rows: parallel workers and JIT compilation take longer than reading.
    DATABASES["default"]["OPTIONS"]["options"] += " -c max_parallel_workers_per_gather=0 -c jit=off"
    # The data is in memory or on flash, where random access costs about as much as sequential access.
    DATABASES["default"]["OPTIONS"]["options"] += " -c random_page_cost=1.1"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {
    # Used only for throttling. In the database, because all processes have to count the same attempts.
    "default": {"BACKEND": "harness_site.accounts.throttle_cache.ThrottleCache"},
}

# ------------------------------------------------------------------------------------------------ applications

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    *HARNESS_APPS,
]

MIDDLEWARE = [*HARNESS_MIDDLEWARE]
MIDDLEWARE.insert(1, "whitenoise.middleware.WhiteNoiseMiddleware")
if HTTPS:
    MIDDLEWARE.insert(0, "harness_site.https_redirect_loop_middleware.HttpsRedirectLoopMiddleware")

ROOT_URLCONF = "harness_site.urls"
WSGI_APPLICATION = "harness_site.wsgi.application"
ASGI_APPLICATION = "harness_site.asgi.application"
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

TEMPLATES = [
    {
        "BACKEND": "harness_site.core.hidden_character_template_backend.Templates",
        "NAME": "django",
        "DIRS": HARNESS_TEMPLATE_DIRS,
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": HARNESS_TEMPLATE_BUILTINS,
            "context_processors": HARNESS_CONTEXT_PROCESSORS,
        },
    }
]

STATIC_URL = "static/"
STATICFILES_DIRS = HARNESS_STATIC_DIRS
WHITENOISE_USE_FINDERS = True

#: Where `make messages` writes the words of templates outside of the package.
LOCALE_PATHS = [BASE_DIR / "harness_site" / "locale"] if env.IS_CHECKOUT else []
USE_I18N = True
LANGUAGE_CODE = "en"
#: The browser of the reader chooses one.
LANGUAGES = list(SITE_LANGUAGES)
USE_TZ = True
TIME_ZONE = "UTC"

# ------------------------------------------------------------------------------------------------ security

LOGIN_URL = LOGOUT_REDIRECT_URL = "harness_accounts:login"
LOGIN_REDIRECT_URL = "harness:home"
SESSION_SERIALIZER = "django.contrib.sessions.serializers.JSONSerializer"
#: Confirmations are shown once; they are kept in the user session.
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
# Browsers treat `localhost` as secure without HTTPS.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not HTTPS
no_provider_apps: list[dict[str, Any]] = []
provider_apps = env.read_or_collect_problem(oidc_settings.build_oidc_provider_settings, no_provider_apps)
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": provider_apps}}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

CSRF_FAILURE_VIEW = "harness_site.error_pages.show_csrf_failure"
SITE_CONTENT_SECURITY_POLICY = security_headers.build_content_security_policy(
    form_targets=oidc_settings.list_oidc_provider_origins_or_collect_problem(), report_violations=DEBUG
)
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
CSRF_COOKIE_HTTPONLY = True
if HTTPS:
    # Browsers accept cookies of this prefix only from this very host and over HTTPS.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-harness", "__Host-harness-form"
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^health/(live|ready)?$"]
SECURE_HSTS_SECONDS = env.read_non_negative_integer_or_collect_problem(
    "HARNESS_HSTS_SECONDS", 31_536_000 if HTTPS else 0
)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = env.read_boolean_or_collect_problem(
    "HARNESS_HSTS_SUBDOMAINS", default=False
)
# The site cannot know whether its subdomains are ready for HTTPS.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
#: Larger than any form of the site: a decision with its evidence, or edited arguments.
DATA_UPLOAD_MAX_MEMORY_SIZE = FILE_UPLOAD_MAX_MEMORY_SIZE = 2_621_440
#: The largest form is about the 100 calls of a page of an outage, with six fields for each.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 700
DATA_UPLOAD_MAX_NUMBER_FILES = 10
#: Maximum size in bytes of an evidence file.
EVIDENCE_BYTES = env.read_non_negative_integer_or_collect_problem("HARNESS_EVIDENCE_MEGABYTES", 5) * 1_048_576
SERVER_LIMITS = read_server_limits_from_environment(evidence_bytes=EVIDENCE_BYTES)
#: Number of requests that a token may make in a minute, counted by each process; a sixth of them at once.
API_REQUESTS_PER_MINUTE = env.read_positive_integer_or_collect_problem("HARNESS_API_REQUESTS_PER_MINUTE", 30_000)
FILE_UPLOAD_HANDLERS = [
    "harness_site.review.upload_size_limit_handler.UploadSizeLimit",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]
BEHIND_PROXY = env.read_boolean_or_collect_problem("HARNESS_BEHIND_PROXY", default=False)
if BEHIND_PROXY:
    # Only for a proxy that sets these headers itself on every request.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    ALLAUTH_TRUSTED_PROXY_COUNT = 1

# ------------------------------------------------------------------------------------------------ notifications

SITE_ADDRESS_IS_GUESSED = not SITE_ADDRESS
SITE_ADDRESS = SITE_ADDRESS or site_address.guess_site_address(ALLOWED_HOSTS, https=HTTPS)
#: Without a server no e-mail is sent.
MAIL_SERVER = env.read_or_collect_problem(lambda: mail_settings.read_mail_server_setting(debug=DEBUG), None)
MAIL_FROM = (
    env.read_or_collect_problem(mail_settings.read_sender_setting, "")
    or f"Harness <harness@{urlsplit(SITE_ADDRESS).hostname}>"
)
#: What Django and its command `sendtestemail` send goes through the same server.
if django.VERSION < (6, 1):
    EMAIL_BACKEND = "harness_site.mail_backend.EmailBackend"
else:
    MAILERS = {"default": {"BACKEND": "harness_site.mail_backend.EmailBackend"}}
DEFAULT_FROM_EMAIL = SERVER_EMAIL = MAIL_FROM
#: Host names that webhooks may use although they resolve to addresses inside this network.
WEBHOOK_HOSTS = [host.lower() for host in read_host_names_or_collect_problem("HARNESS_WEBHOOK_HOSTS")]

LOG_LEVEL = env.read_or_collect_problem(env.read_log_level, "WARNING")

env.raise_collected_problems()

# ------------------------------------------------------------------------------------------------ logging

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "harness_site.core.log_formatter_and_filter.OneEntryFormatter",
            "format": "{asctime} {levelname} {name}: {message}",
            "style": "{",
        }
    },
    "filters": {"without_form_errors": {"()": "harness_site.core.log_formatter_and_filter.FormErrorFilter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "django": {"handlers": [], "propagate": True},
        "django.request": {"filters": ["without_form_errors"]},
    },
}
