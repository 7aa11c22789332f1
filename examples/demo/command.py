import signal
import time
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from checkpoints.enums import Role
from examples.demo import rehearsal
from examples.demo.acts import Act
from examples.demo.people import reset_sign_in
from examples.demo.processes import ProcessFailed, port_problem, start_site
from examples.demo.stages import Stage, abandoned_stages, new_stage
from examples.demo.story import Story
from harness_site import env

#: Seconds between two looks at everything.
TICK = 0.1
#: Seconds the model takes to answer while somebody watches.
PACE = 1.5


class Command(BaseCommand):
    help = "Plays the story: an agent is killed in the middle of a payment, a person decides, the run goes on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--decide",
            choices=sorted(rehearsal.REFUNDS),
            help="decide like this without a person and without the site, and check the outcome against the ledger",
        )
        parser.add_argument(
            "--state",
            type=Path,
            default=settings.STATE_DIR / "demo",
            help="folder for the ledgers and outboxes (default: var/demo)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        root: Path = options["state"].absolute()
        self._stopping = False
        with ExitStack() as leaving:
            _on_signals(self._stop, leaving)
            try:
                if options["decide"]:
                    self._rehearse(new_stage(root), options["decide"], leaving)
                else:
                    self._perform(root, leaving)
            except ProcessFailed as failed:
                raise CommandError(str(failed)) from None

    # with a person

    def _perform(self, root: Path, leaving: ExitStack) -> None:
        port = _port()
        earlier, stage = list(abandoned_stages(root)), new_stage(root)
        address = f"http://127.0.0.1:{port}"
        self._introduce(address)
        site = start_site(port, stage.folder / "site.log", lambda: self._stopping)
        leaving.callback(site.stop)
        acts = [self._act(each, address, PACE, leaving) for each in (*earlier, stage)]
        for each in acts[:-1]:
            each.story.skip()
            self._say(f"{each.story.stage.session_id} was left unfinished by an earlier demo: it goes on as well.")
        while not self._stopping:
            acts = [act for act in acts if self._goes_on(act)]
            if site.code is not None:
                raise site.failure("The site")
            time.sleep(TICK)
        self._lines("", "The demo ends. Its sessions and ledgers stay.")

    def _introduce(self, address: str) -> None:
        decides, looks = reset_sign_in("approver", Role.APPROVER), reset_sign_in("auditor", Role.AUDITOR)
        self._lines(
            "",
            f"  Open      {address}/",
            f"  Sign in   {decides.name:<10}{decides.password:<16}decides",
            f"            {looks.name:<10}{looks.password:<16}only looks",
            "  Stop      Ctrl-C",
            "",
        )

    def _goes_on(self, act: Act) -> bool:
        """Whether there is more of `act` to come. An agent that fails does not take the site with it."""
        try:
            return not self._over(act)
        except ProcessFailed as failed:
            self._say(str(failed))
            return False

    def _over(self, act: Act) -> bool:
        over = act.play()
        if over:
            self._conclude(act.story.stage)
        return over

    def _conclude(self, stage: Stage) -> None:
        refunds, mails = _count(stage.refunds, "refund"), _count(stage.mails, "mail")
        self._say(f"The ledger has {refunds}, the outbox {mails}: {stage.folder}")

    # without a person

    def _rehearse(self, stage: Stage, decision: str, leaving: ExitStack) -> None:
        act = self._act(stage, "", 0, leaving)
        while not self._over(act):
            if self._stopping:
                raise CommandError("The demo was stopped before its end.")
            rehearsal.decide(stage, decision)
            time.sleep(TICK)
        if wrong := rehearsal.disagreements(stage, decision):
            raise CommandError("\n".join(["Ledger and session do not agree.", *wrong]))
        self._say("Ledger and session agree.")

    # both

    def _act(self, stage: Stage, address: str, pace: float, leaving: ExitStack) -> Act:
        act = Act(Story(stage, self._say, address), _database(), pace)
        leaving.callback(act.stop)
        return act

    def _say(self, line: str) -> None:
        self._lines(f"{datetime.now().astimezone():%H:%M:%S}  {line}")

    def _lines(self, *lines: str) -> None:
        self.stdout.write("\n".join(lines) + "\n")
        self.stdout.flush()

    def _stop(self) -> None:
        self._stopping = True


def _on_signals(stop: Callable[[], None], leaving: ExitStack) -> None:
    """Until the end, what would end this process only asks it to: no child may outlive it."""

    def heard(_number: int, _frame: FrameType | None) -> None:
        stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        leaving.callback(signal.signal, number, signal.signal(number, heard))


def _port() -> int:
    """The port from PORT, once it is known that it can be used."""
    try:
        port = env.number("PORT", 8000)
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from None
    if problem := port_problem(port):
        raise CommandError(f"Port {port} cannot be used: {problem}. Name another one: PORT=8765 make demo")
    return port


def _count(things: list[Any], noun: str) -> str:
    return f"1 {noun}" if len(things) == 1 else f"{len(things)} {noun}s"


def _database() -> str:
    """The site's database, as an agent outside of Django opens it."""
    place = settings.DATABASES["default"]
    is_file = place["ENGINE"] == "django.db.backends.sqlite3"
    return str(place["NAME"]) if is_file else env.text("HARNESS_DATABASE_URL")
