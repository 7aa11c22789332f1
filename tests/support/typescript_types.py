"""Types of the TypeScript client, generated from the OpenAPI document: `make typescript-types`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.support.launched_process import ROOT

CLIENT: Final = ROOT / "clients" / "typescript"
TYPES: Final = CLIENT / "src" / "api.ts"


def generate_types(target: Path) -> None:
    """Write the types to a file."""
    from harness_site.api.openapi_document import build_openapi_document

    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "openapi.json")
        document.write_text(json.dumps(build_openapi_document("/api/v1/")))
        program = CLIENT / "node_modules" / ".bin" / "openapi-typescript"
        options = ["--default-non-nullable=false", "--output", str(target)]
        subprocess.run([str(program), str(document), *options], cwd=CLIENT, check=True, capture_output=True)


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    django.setup()
    generate_types(TYPES)
