from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate


class ApiConfig(AppConfig):
    name = "harness_site.api"
    label = "harness_api"
    verbose_name = "Harness: HTTP API"

    def ready(self) -> None:
        from harness_site.api.cascade_delete_spans_trigger import create_span_delete_trigger
        from harness_site.api.postgres_query_plan_reuse import set_plan_mode_of_pooled_connection

        # Not in a migration: SQLite drops the triggers of a table when a later migration rebuilds it.
        post_migrate.connect(create_span_delete_trigger, sender=self)
        connection_created.connect(set_plan_mode_of_pooled_connection)
