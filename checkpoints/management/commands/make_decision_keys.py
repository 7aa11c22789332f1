"""`manage.py make_decision_keys`: make the keys with which the site signs decisions and agents verify them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints.seals.decision_keys import SIGNING_SETTING, VERIFY_SETTING, create_key_pair


class Command(BaseCommand):
    help = "Makes a pair of keys for the signatures of decisions, and prints both settings. It stores nothing."
    #: Checks would refuse a site whose keys are malformed, which this command is to replace.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            pair = create_key_pair()
        except ImportError as error:
            raise CommandError("Install the package cryptography: the extra `secrets` has it.") from error
        self.stdout.write(
            f"# For the site alone. Whoever has it can decide in the name of every person.\n"
            f"{SIGNING_SETTING}={pair.signing}\n"
            f"# For every agent and the site. It is public; its id is {pair.key_id}. After a rotation,\n"
            f"# former keys follow it, separated by commas.\n"
            f"{VERIFY_SETTING}={pair.verifying}"
        )
