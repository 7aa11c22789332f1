from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from harness_site.accounts.sign_in_links import LIFETIME, build_sign_in_link


class Command(BaseCommand):
    help = "Prints a link that signs an account in once, for people who cannot use their password."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise CommandError(f"There is no account {options['name']!r}. Create one with createsuperuser.")
        if not user.is_active:
            raise CommandError(f"The account {options['name']!r} is deactivated. An admin can activate it again.")
        self.stdout.write(build_sign_in_link(user))
        self.stderr.write(
            f"The link works once, within {LIFETIME.total_seconds() / 3600:.0f} hours. For fifteen minutes "
            "after it, the person may set a new password without the current one, under the name at the bottom left."
        )
