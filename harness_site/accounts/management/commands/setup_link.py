from typing import Any

from django.core.management.base import BaseCommand, CommandError

from harness_site.accounts import first_admin


class Command(BaseCommand):
    help = "Prints the link that creates the first account of an empty installation."

    def handle(self, *args: Any, **options: Any) -> None:
        if not first_admin.is_installation_without_accounts():
            raise CommandError("This installation has accounts. Use `sign_in_link NAME` to sign in to one of them.")
        self.stdout.write(first_admin.build_setup_link())
