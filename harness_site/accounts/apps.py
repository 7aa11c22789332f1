from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "harness_site.accounts"
    label = "harness_accounts"
    verbose_name = "Harness: accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from harness_site.accounts.audit_password_and_factor_changes import connect_receivers

        connect_receivers()
