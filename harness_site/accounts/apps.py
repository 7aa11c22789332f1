from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "harness_site.accounts"
    label = "harness_accounts"
    verbose_name = "Harness: accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from harness_site.accounts.signals import connect_signals

        connect_signals()
