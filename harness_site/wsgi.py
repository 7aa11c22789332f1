"""WSGI application, for a server that leaves `/ws/` to another process."""

import os

from django.core.signals import request_finished
from django.core.wsgi import get_wsgi_application

from harness_site.serving.garbage_collection import (
    collect_garbage_after_response,
    freeze_loaded_objects,
)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")

application = get_wsgi_application()
request_finished.connect(collect_garbage_after_response)  # a WSGI server has sent the response before
freeze_loaded_objects()
