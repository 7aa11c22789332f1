"""The ASGI application that docs/embedding.md gives to a project."""

import os
from typing import Any

from tests.docs.page_files import files_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.integration.embedding.clinic.settings")
_names: dict[str, Any] = {}
exec(files_of("embedding.md")["shop/asgi.py"], _names)  # noqa: S102 - the page is part of the project
application = _names["application"]
