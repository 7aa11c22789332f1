from django.apps import AppConfig
from django.db import connection


class HarnessSiteConfig(AppConfig):
    name = "harness_site"
    label = "harness_site"
    verbose_name = "Harness"

    def ready(self) -> None:
        from harness_site import checks  # noqa: F401 - registers them

        if connection.vendor == "postgresql":
            from harness_site.core import postgres_timestamps

            postgres_timestamps.install_timestamp_loader()
