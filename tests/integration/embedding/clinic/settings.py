"""A Django project with apps called `accounts` and `review` that includes the site's pages below `/harness/`, with the
settings that docs/embedding.md gives for that, and some of its own."""

import os
from pathlib import Path

from checkpoints.database_url import database_from_url
from tests.docs.page_files import files_of

exec(files_of("embedding.md")["shop/settings.py"])  # noqa: S102 - the page is part of the project

SECRET_KEY = "only for tests"
TIME_ZONE = "Africa/Nairobi"
ALLOWED_HOSTS = ["testserver"]
DATABASES = {"default": {**database_from_url(os.environ["CLINIC_DATABASE_URL"]), "ATOMIC_REQUESTS": True}}
SILENCED_SYSTEM_CHECKS = ["checkpoints.W001"]
INSTALLED_APPS: list[str] = [
    *globals()["INSTALLED_APPS"],
    "tests.integration.embedding.clinic.accounts",
    "tests.integration.embedding.clinic.review",
]
ROOT_URLCONF = "tests.integration.embedding.clinic.urls"
WSGI_APPLICATION = None
ASGI_APPLICATION = "tests.integration.embedding.clinic.asgi.application"
LOGIN_URL = "/admin/login/"

# The frame of the clinic's pages has the name that it has in most projects.
globals()["TEMPLATES"][0]["DIRS"].insert(0, Path(__file__).with_name("own_templates"))
SITE_ADDRESS = "https://clinic.example"
MAIL_FROM = "harness@clinic.example"
