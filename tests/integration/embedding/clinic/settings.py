"""A Django project with apps called `accounts` and `review` that includes the site's pages below `/harness/`, with the
settings that docs/embedding.md gives for that."""

import os
import re
from pathlib import Path

from checkpoints.database_url import database_from_url

SECRET_KEY = "only for tests"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
ALLOWED_HOSTS = ["testserver"]
DATABASES = {"default": {**database_from_url(os.environ["CLINIC_DATABASE_URL"]), "ATOMIC_REQUESTS": True}}
SILENCED_SYSTEM_CHECKS = ["checkpoints.W001"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "checkpoints",  # a project that has used the library before it adds the pages
    "tests.integration.embedding.clinic.accounts",
    "tests.integration.embedding.clinic.review",
]
ROOT_URLCONF = "tests.integration.embedding.clinic.urls"
ASGI_APPLICATION = "tests.integration.embedding.clinic.asgi.application"
STATIC_URL = "/static/"

_DOCUMENT = (Path(__file__).parents[4] / "docs/embedding.md").read_text()
[_documented_settings] = re.findall("```python ignore\n(.*?)```", _DOCUMENT, re.DOTALL)
exec(_documented_settings)  # noqa: S102 - the page is part of the project

# The frame of the clinic's pages has the name that it has in most projects.
globals()["TEMPLATES"][0]["DIRS"].insert(0, Path(__file__).with_name("own_templates"))
SITE_ADDRESS = "https://clinic.example"
MAIL_FROM = "harness@clinic.example"
