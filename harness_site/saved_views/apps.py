from django.apps import AppConfig


class SavedConfig(AppConfig):
    name = "harness_site.saved_views"
    label = "harness_saved"
    verbose_name = "Harness: saved views"
    default_auto_field = "django.db.models.BigAutoField"
