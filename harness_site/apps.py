from django.apps import AppConfig
from django.db import connection


class HarnessSiteConfig(AppConfig):
    name = "harness_site"
    label = "harness_site"
    verbose_name = "Harness"

    def ready(self) -> None:
        from harness_site import checks  # noqa: F401 - registers them

        if connection.vendor == "postgresql":
            from harness_site.core import fast_postgres_timestamp_loader

            fast_postgres_timestamp_loader.install_timestamp_loader()
