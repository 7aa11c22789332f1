import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.integration.embedding.clinic.settings")

from django.core.asgi import get_asgi_application

_pages: Any = get_asgi_application()

# What follows needs the apps to be loaded.
from channels.routing import ProtocolTypeRouter  # noqa: E402

from harness_site.live.routing import build_websocket_application  # noqa: E402
from harness_site.live.server_lifespan import handle_lifespan  # noqa: E402

_all: Any = {"http": _pages, "websocket": build_websocket_application(), "lifespan": handle_lifespan}
application = ProtocolTypeRouter(_all)
