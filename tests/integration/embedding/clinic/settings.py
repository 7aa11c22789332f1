"""A Django project with apps called `accounts` and `review` that includes the site's pages below `/harness/`."""

import os

from checkpoints.conf import database_from_url
from harness_site.security_headers import build_content_security_policy
from harness_site.site_settings import *  # noqa: F403
from harness_site.site_settings import (
    HARNESS_APPS,
    HARNESS_CONTEXT_PROCESSORS,
    HARNESS_MIDDLEWARE,
    HARNESS_STATIC_DIRS,
    HARNESS_TEMPLATE_BUILTINS,
    HARNESS_TEMPLATE_DIRS,
)

SECRET_KEY = "only for tests"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
ALLOWED_HOSTS = ["testserver"]
DATABASES = {"default": database_from_url(os.environ["CLINIC_DATABASE_URL"])}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "tests.integration.embedding.clinic.accounts",
    "tests.integration.embedding.clinic.review",
]
INSTALLED_APPS += HARNESS_APPS
MIDDLEWARE = [*HARNESS_MIDDLEWARE, "django.contrib.messages.middleware.MessageMiddleware"]
TEMPLATES = [
    {
        "BACKEND": "harness_site.core.template_backend.Templates",
        "NAME": "django",
        "DIRS": HARNESS_TEMPLATE_DIRS,
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": HARNESS_TEMPLATE_BUILTINS,
            "context_processors": [
                *HARNESS_CONTEXT_PROCESSORS,
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
ROOT_URLCONF = "tests.integration.embedding.clinic.urls"
ASGI_APPLICATION = "tests.integration.embedding.clinic.asgi.application"
STATIC_URL = "/static/"
STATICFILES_DIRS = HARNESS_STATIC_DIRS
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
CACHES = {
    "default": {"BACKEND": "harness_site.accounts.throttle_cache.ThrottleCache"},
    "rendered": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}
CONTENT_SECURITY_POLICY = {"DIRECTIVES": build_content_security_policy()}
SITE_ADDRESS = "https://clinic.example"
MAIL_FROM = "harness@clinic.example"
SECURE_REDIRECT_EXEMPT = [r"^harness/health/$"]
