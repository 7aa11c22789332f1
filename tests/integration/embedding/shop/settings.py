"""A Django project that embeds the library and knows nothing of the website. What differs is in the environment."""

import os

from checkpoints.database_url import database_from_url

SECRET_KEY = "only for tests"
INSTALLED_APPS = ["checkpoints", "tests.integration.embedding.shop"]
ROOT_URLCONF = "tests.integration.embedding.shop.urls"
ALLOWED_HOSTS = ["testserver"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_DATABASE = database_from_url(os.environ["SHOP_DATABASE_URL"])
if "SHOP_TIMEOUT" in os.environ:
    _DATABASE["OPTIONS"]["timeout"] = float(os.environ["SHOP_TIMEOUT"])
DATABASES = {"default": {**_DATABASE, "ATOMIC_REQUESTS": os.environ.get("SHOP_ATOMIC_REQUESTS") == "1"}}
if os.environ.get("SHOP_SECOND_ALIAS") == "1":
    DATABASES["durable"] = {**_DATABASE, "TEST": {"MIRROR": "default"}}
