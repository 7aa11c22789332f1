"""Settings for the tests that run against a broken copy: the library alone, on a copy of the database it is told."""

import os
from pathlib import Path
from uuid import uuid4

from checkpoints.database_url import database_from_url

DATABASES = {"default": database_from_url(os.environ["HARNESS_DATABASE_URL"])}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["TEST"] = {"NAME": str(Path("test.sqlite3").absolute())}
else:
    DATABASES["default"]["TEST"] = {"NAME": f"mutant_{uuid4().hex}", "TEMPLATE": os.environ["HARNESS_MUTANT_MODEL"]}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["checkpoints"]
SECRET_KEY = "only for tests"
USE_TZ = True
