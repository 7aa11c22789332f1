from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class DisplayConfig(AppConfig):
    name = "harness_site.display"
    label = "harness_display"
    verbose_name = "Harness: display"

    def ready(self) -> None:
        from harness_site.display.display_preferences import load_display_choice_into_session

        user_logged_in.connect(
            load_display_choice_into_session, dispatch_uid="harness_display.load_display_choice_into_session"
        )
