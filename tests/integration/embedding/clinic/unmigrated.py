"""Print as JSON what the site says before the clinic has run `migrate`: `python -m …clinic.unmigrated`."""

import html
import json

import django


def main() -> None:
    django.setup()
    from django.test import Client

    page = Client().get("/harness/review/", headers={"Accept": "text/html"})
    own = Client().get("/prices/")
    print(
        json.dumps({"status": page.status_code, "page": html.unescape(page.content.decode()), "own": own.status_code})
    )


if __name__ == "__main__":
    main()
