"""Settings of the site. Every choice comes from the environment; `docs/operations.md` lists the names."""

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from checkpoints.conf import database_from_url
from harness_site import env, security

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"

# ------------------------------------------------------------------------------------------------ where it runs

DEBUG = env.flag("HARNESS_DEBUG", default=False)
ALLOWED_HOSTS = env.words("HARNESS_ALLOWED_HOSTS", "127.0.0.1,localhost")
CSRF_TRUSTED_ORIGINS = env.words("HARNESS_TRUSTED_ORIGINS")
HTTPS = env.flag("HARNESS_HTTPS", default=False)

SECRET_KEY = env.text("HARNESS_SECRET_KEY")
if not SECRET_KEY:
    if not set(ALLOWED_HOSTS) <= security.LOCAL_HOSTS:
        raise ImproperlyConfigured("Set HARNESS_SECRET_KEY (or HARNESS_SECRET_KEY_FILE) for a site that others reach.")
    SECRET_KEY = env.kept_secret(VAR_DIR / "secret_key")

VAR_DIR.mkdir(exist_ok=True)
DATABASES = {"default": database_from_url(env.text("HARNESS_DATABASE_URL") or str(VAR_DIR / "harness.sqlite3"))}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, not memory: threads and processes share it. One per process, so that two test runs may overlap.
    DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / f"test-{os.getpid()}.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# ------------------------------------------------------------------------------------------------ what it is made of

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
    "checkpoints",
    "harness_site",
    "harness_site.accounts",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "harness_site.security.PrivateResponses",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "harness_site.accounts.middleware.SignInRequired",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "harness_site.urls"
WSGI_APPLICATION = "harness_site.wsgi.application"
ASGI_APPLICATION = "harness_site.asgi.application"
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["django.templatetags.static", "harness_site.templatetags.harness"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ],
        },
    }
]

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True

USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

# ------------------------------------------------------------------------------------------------ who may come in

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
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
CONTENT_SECURITY_POLICY = {"DIRECTIVES": security.CONTENT_POLICY}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
CSRF_COOKIE_HTTPONLY = True
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^health/$"]
SECURE_HSTS_SECONDS = env.number("HARNESS_HSTS_SECONDS", 31_536_000 if HTTPS else 0)
if env.flag("HARNESS_BEHIND_PROXY", default=False):
    # Only for a proxy that sets this header itself on every request.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

# ------------------------------------------------------------------------------------------------ what it says

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": env.text("HARNESS_LOG_LEVEL", "WARNING")},
    "loggers": {"django": {"handlers": [], "propagate": True}},
}
