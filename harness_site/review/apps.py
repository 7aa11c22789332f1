from django.apps import AppConfig


class ReviewConfig(AppConfig):
    name = "harness_site.review"
    label = "harness_review"
    verbose_name = "Harness: review"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from harness_site.review.release_claims_on_logout import connect_logout_receiver

        connect_logout_receiver()
