from django.apps import AppConfig
from django.db.models.signals import post_migrate


class SearchConfig(AppConfig):
    name = "harness_site.search"
    label = "harness_search"
    verbose_name = "Harness: search"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from harness_site.search.index_delete_triggers import create_delete_triggers

        # Not in a migration: SQLite drops the triggers of a table when a later migration rebuilds it.
        post_migrate.connect(create_delete_triggers, sender=self)
