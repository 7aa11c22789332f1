"""Serve requests in a process of its own: `python -m …shop.visit /charge/1/ /charge/2/` prints status and answer."""

import json
import sys

import django


def main(paths: list[str]) -> None:
    django.setup()

    from django.test import Client

    from tests.integration.embedding.shop import views

    for order in (int(path.strip("/").rpartition("/")[2]) for path in paths if path.startswith("/charge/")):
        views.registries[order] = views.open_registry(order)
    client = Client(raise_request_exception=False)
    for path in paths:
        response = client.get(path)
        body = response.json() if response["Content-Type"] == "application/json" else None
        print(json.dumps([response.status_code, body]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
