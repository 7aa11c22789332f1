from django.apps import AppConfig
from django.core import checks
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate

from checkpoints.checks import check_seal_and_decision_keys, check_settings_of_library_database


class CheckpointsConfig(AppConfig):
    name = "checkpoints"
    label = "checkpoints"
    verbose_name = "Checkpoints"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from checkpoints.db.decompressed_text_sql import register_sqlite_decompression_function
        from checkpoints.open_and_migrate import create_default_workspace_if_none

        connection_created.connect(register_sqlite_decompression_function)
        checks.register(check_settings_of_library_database, "checkpoints")
        checks.register(check_seal_and_decision_keys, "checkpoints")
        post_migrate.connect(create_default_workspace_if_none, sender=self)  # `flush` sends it too
