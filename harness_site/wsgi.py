"""WSGI application, for a server that leaves `/ws/` to another process."""

import os

from django.core.wsgi import get_wsgi_application

from harness_site.serving.garbage_collection import freeze_loaded_objects

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")

application = get_wsgi_application()
freeze_loaded_objects()
