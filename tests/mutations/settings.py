"""Settings for the tests that run against a broken copy: the library alone, on a database of its own."""

import os
from pathlib import Path

from checkpoints.conf import database_from_url

DATABASES = {"default": database_from_url(os.environ["HARNESS_DATABASE_URL"])}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["TEST"] = {"NAME": str(Path("test.sqlite3").absolute())}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["checkpoints"]
SECRET_KEY = "only for tests"
USE_TZ = True
