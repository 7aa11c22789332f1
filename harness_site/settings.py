"""Settings of the site. Every choice comes from the environment; `docs/operations.md` lists the names."""

import os
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from checkpoints.conf import database_from_url
from harness_site import env, mail_server, security, single_sign_on
from harness_site.serving.limits import limits_from_environment
from harness_site.site_settings import *  # noqa: F403 - what is the same in every project
from harness_site.site_settings import (
    HARNESS_APPS,
    HARNESS_CONTEXT_PROCESSORS,
    HARNESS_MIDDLEWARE,
    HARNESS_STATIC_DIRS,
    HARNESS_TEMPLATE_BUILTINS,
    HARNESS_TEMPLATE_DIRS,
)

BASE_DIR = env.BASE_DIR
STATE_DIR = env.state_dir()

# ------------------------------------------------------------------------------------------------ where it runs

DEBUG = env.flag("HARNESS_DEBUG", default=False)
ALLOWED_HOSTS = env.words("HARNESS_ALLOWED_HOSTS", "127.0.0.1,localhost")
CSRF_TRUSTED_ORIGINS = env.words("HARNESS_TRUSTED_ORIGINS")
HTTPS = env.flag("HARNESS_HTTPS", default=False)

SECRET_KEY = env.text("HARNESS_SECRET_KEY")
if not SECRET_KEY:
    if not set(ALLOWED_HOSTS) <= security.LOCAL_HOSTS:
        raise ImproperlyConfigured("Set HARNESS_SECRET_KEY (or HARNESS_SECRET_KEY_FILE) for a site that others reach.")
    SECRET_KEY = env.kept_secret(STATE_DIR / "secret_key")
elif not DEBUG:
    security.check_secret_key(SECRET_KEY)
SECRET_KEY_FALLBACKS = env.words("HARNESS_OLD_SECRET_KEYS")

STATE_DIR.mkdir(parents=True, exist_ok=True)
DATABASES = {"default": database_from_url(env.text("HARNESS_DATABASE_URL") or str(STATE_DIR / "harness.sqlite3"))}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, not memory: threads and processes share it. One per process, so that two test runs may overlap.
    DATABASES["default"]["TEST"] = {"NAME": str(STATE_DIR / f"test-{os.getpid()}.sqlite3")}
else:
    # What is prepared is planned for its values each time: a plan for any value cannot know that a partial index holds
    # what is asked for, and reads the whole table instead.
    DATABASES["default"]["OPTIONS"]["options"] += " -c plan_cache_mode=force_custom_plan"
    # A page reads little: starting other processes for it, or compiling its queries, takes longer than reading.
    DATABASES["default"]["OPTIONS"]["options"] += " -c max_parallel_workers_per_gather=0 -c jit=off"
    # What it reads is in memory or on flash, where rows that lie apart cost about what those in a row cost.
    DATABASES["default"]["OPTIONS"]["options"] += " -c random_page_cost=1.1"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {
    # Only for counting attempts. In the database, because every process has to count the same ones.
    "default": {"BACKEND": "harness_site.accounts.throttle_cache.ThrottleCache"},
}

# ------------------------------------------------------------------------------------------------ what it is made of

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    *HARNESS_APPS,
]

MIDDLEWARE = [*HARNESS_MIDDLEWARE]
MIDDLEWARE.insert(1, "whitenoise.middleware.WhiteNoiseMiddleware")

ROOT_URLCONF = "harness_site.urls"
WSGI_APPLICATION = "harness_site.wsgi.application"
ASGI_APPLICATION = "harness_site.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "harness_site.templating.Templates",
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

USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

# ------------------------------------------------------------------------------------------------ who may come in

AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
# Browsers take `localhost` for safe without HTTPS.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not HTTPS
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": single_sign_on.apps()}}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

CSRF_FAILURE_VIEW = "harness_site.errors.csrf_failure"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": security.content_policy(form_targets=single_sign_on.origins(), reports=DEBUG),
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
CSRF_COOKIE_HTTPONLY = True
if HTTPS:
    # A name that browsers take from this very host alone, and only over HTTPS.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-harness", "__Host-harness-form"
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^health/$"]
SECURE_HSTS_SECONDS = env.number("HARNESS_HSTS_SECONDS", 31_536_000 if HTTPS else 0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = env.flag("HARNESS_HSTS_SUBDOMAINS", default=False)
# Whether other names below this one are ready for HTTPS is nothing this site can know.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
#: No form here takes more: a decision with its evidence, or changed arguments.
DATA_UPLOAD_MAX_MEMORY_SIZE = FILE_UPLOAD_MAX_MEMORY_SIZE = 2_621_440
DATA_UPLOAD_MAX_NUMBER_FIELDS = 200
DATA_UPLOAD_MAX_NUMBER_FILES = 10
#: How large a file may be that is given as evidence for a decision.
EVIDENCE_BYTES = env.number("HARNESS_EVIDENCE_MEGABYTES", 5) * 1_048_576
SERVER_LIMITS = limits_from_environment(evidence_bytes=EVIDENCE_BYTES)
FILE_UPLOAD_HANDLERS = [
    "harness_site.review.uploading.Limit",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]
BEHIND_PROXY = env.flag("HARNESS_BEHIND_PROXY", default=False)
if BEHIND_PROXY:
    # Only for a proxy that sets these headers itself on every request.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    ALLAUTH_TRUSTED_PROXY_COUNT = 1

# ------------------------------------------------------------------------------------------------ whom it tells

#: How people reach this site; links in messages begin with it.
SITE_ADDRESS = env.text("HARNESS_ADDRESS").strip().rstrip("/") or security.guessed_address(ALLOWED_HOSTS, https=HTTPS)
#: Without one nobody gets e-mail.
MAIL_SERVER = mail_server.configured(debug=DEBUG)
MAIL_FROM = env.text("HARNESS_EMAIL_FROM").strip() or f"Harness <harness@{urlsplit(SITE_ADDRESS).hostname}>"
#: Names that webhooks may lead to although they lie inside this network.
WEBHOOK_HOSTS = [host.lower() for host in env.words("HARNESS_WEBHOOK_HOSTS")]

# ------------------------------------------------------------------------------------------------ what it says

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "harness_site.log_format.OneEntryFormatter",
            "format": "{asctime} {levelname} {name}: {message}",
            "style": "{",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": env.text("HARNESS_LOG_LEVEL", "WARNING")},
    "loggers": {"django": {"handlers": [], "propagate": True}},
}
