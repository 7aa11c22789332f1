from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "harness_site.accounts"
    label = "accounts"
    verbose_name = "Accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from harness_site.accounts.listening import listen

        listen()
