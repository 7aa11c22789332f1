from django.apps import AppConfig


class SavedConfig(AppConfig):
    name = "harness_site.saved"
    label = "saved"
    verbose_name = "Saved views"
    default_auto_field = "django.db.models.BigAutoField"
