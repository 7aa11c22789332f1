from django.apps import AppConfig
from django.core import checks

from checkpoints.checks import check_databases


class CheckpointsConfig(AppConfig):
    name = "checkpoints"
    label = "checkpoints"
    verbose_name = "Checkpoints"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        checks.register(check_databases, "checkpoints")
