import os
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
from examples.demo import scripted_decision_and_ledger_check
from examples.demo.agent_supervisor import AgentSupervisor
from examples.demo.demo_accounts import create_or_reset_account
from examples.demo.demo_processes import ProcessFailed, describe_port_problem_or_empty, start_site_and_wait_until_ready
from examples.demo.demo_session_folder import DemoSession, iterate_abandoned_sessions, reserve_demo_session_folder
from examples.demo.event_narration import EventNarrator
from harness_site import env

#: Seconds between two checks.
TICK_SECONDS = 0.1
#: Seconds the model takes to answer while a person watches.
MODEL_PACE_SECONDS = 1.5


class Command(BaseCommand):
    help = "Plays the story: an agent is killed in the middle of a payment, a person decides, the run goes on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--decide",
            choices=sorted(scripted_decision_and_ledger_check.EXPECTED_REFUNDS),
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
            _install_stop_signal_handlers(self._request_stop, leaving)
            try:
                if options["decide"]:
                    self._run_without_person_and_check_ledger(
                        reserve_demo_session_folder(root), options["decide"], leaving
                    )
                else:
                    self._run_with_site(root, leaving)
            except ProcessFailed as failed:
                raise CommandError(str(failed)) from None

    # Demo with a person

    def _run_with_site(self, root: Path, leaving: ExitStack) -> None:
        port = _read_usable_port_setting()
        earlier_sessions, stage = list(iterate_abandoned_sessions(root)), reserve_demo_session_folder(root)
        address = f"http://127.0.0.1:{port}"
        self._create_and_print_demo_accounts(address)
        environment = {"HARNESS_ADDRESS": address, **os.environ}
        site = start_site_and_wait_until_ready(port, stage.folder / "site.log", lambda: self._stopping, environment)
        leaving.callback(site.stop)
        supervisors = [
            self._create_supervisor(demo_session, address, MODEL_PACE_SECONDS, leaving)
            for demo_session in (*earlier_sessions, stage)
        ]
        for supervisor in supervisors[:-1]:
            supervisor.story.skip_past_events()
            self._print_timed_line(
                f"{supervisor.story.stage.session_id} was left unfinished by an earlier demo: it goes on as well."
            )
        while not self._stopping:
            supervisors = [
                supervisor for supervisor in supervisors if self._poll_agent_and_check_if_unfinished(supervisor)
            ]
            if site.code is not None:
                raise site.build_failure_with_log_end("The site")
            time.sleep(TICK_SECONDS)
        self._print_lines("", "The demo ends. Its sessions and ledgers stay.")

    def _create_and_print_demo_accounts(self, address: str) -> None:
        settings.SITE_ADDRESS, settings.SITE_ADDRESS_IS_GUESSED = address, False
        accounts = [
            (create_or_reset_account("approver", Role.APPROVER), "reads and decides"),
            (create_or_reset_account("auditor", Role.AUDITOR), "only reads"),
            (create_or_reset_account("admin", Role.ADMIN), "also manages people and settings"),
        ]
        self._print_lines("", f"  Open      {address}/", "", "  Sign in with a name and a password:")
        self._print_lines(*(f"    {one.name:<10}{one.password:<16}{what}" for one, what in accounts))
        self._print_lines("", "  Or open a link, which signs in once:")
        self._print_lines(*(f"    {one.name:<10}{one.link}" for one, _ in accounts))
        self._print_lines("", "  Stop      Ctrl-C", "")

    def _poll_agent_and_check_if_unfinished(self, supervisor: AgentSupervisor) -> bool:
        """Return True if the supervisor's session is not finished. A failing agent does not stop the site."""
        try:
            return not self._poll_agent_and_print_result_if_finished(supervisor)
        except ProcessFailed as failed:
            self._print_timed_line(str(failed))
            return False

    def _poll_agent_and_print_result_if_finished(self, supervisor: AgentSupervisor) -> bool:
        is_finished = supervisor.poll_and_restart_if_killed()
        if is_finished:
            self._print_refund_and_mail_counts(supervisor.story.stage)
        return is_finished

    def _print_refund_and_mail_counts(self, stage: DemoSession) -> None:
        refunds, mails = (
            _format_item_count_with_noun(stage.refunds, "refund"),
            _format_item_count_with_noun(stage.mails, "mail"),
        )
        self._print_timed_line(f"The ledger has {refunds}, the outbox {mails}: {stage.folder}")

    # Demo without a person

    def _run_without_person_and_check_ledger(self, stage: DemoSession, decision: str, leaving: ExitStack) -> None:
        supervisor = self._create_supervisor(stage, "", 0, leaving)
        while not self._poll_agent_and_print_result_if_finished(supervisor):
            if self._stopping:
                raise CommandError("The demo was stopped before its end.")
            scripted_decision_and_ledger_check.decide_waiting_calls(stage, decision)
            time.sleep(TICK_SECONDS)
        if disagreements := scripted_decision_and_ledger_check.list_disagreements_with_ledger(stage, decision):
            raise CommandError("\n".join(["Ledger and session do not agree.", *disagreements]))
        self._print_timed_line("Ledger and session agree.")

    # Common parts

    def _create_supervisor(self, stage: DemoSession, address: str, pace: float, leaving: ExitStack) -> AgentSupervisor:
        supervisor = AgentSupervisor(EventNarrator(stage, self._print_timed_line, address), _get_database_url(), pace)
        leaving.callback(supervisor.stop)
        return supervisor

    def _print_timed_line(self, line: str) -> None:
        self._print_lines(f"{datetime.now().astimezone():%H:%M:%S}  {line}")

    def _print_lines(self, *lines: str) -> None:
        self.stdout.write("\n".join(lines) + "\n")
        self.stdout.flush()

    def _request_stop(self) -> None:
        self._stopping = True


def _install_stop_signal_handlers(stop: Callable[[], None], leaving: ExitStack) -> None:
    """Turn termination signals into a stop request until the end, so that no child process outlives this one."""

    def handle_signal(_number: int, _frame: FrameType | None) -> None:
        stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        leaving.callback(signal.signal, number, signal.signal(number, handle_signal))


def _read_usable_port_setting() -> int:
    """Return the port from PORT after checking that it can be used."""
    try:
        port = env.read_non_negative_integer_setting("PORT", 8000)
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from None
    if problem := describe_port_problem_or_empty(port):
        raise CommandError(f"Port {port} cannot be used: {problem}. Name another one: PORT=8765 make demo")
    return port


def _format_item_count_with_noun(items: list[Any], noun: str) -> str:
    return f"1 {noun}" if len(items) == 1 else f"{len(items)} {noun}s"


def _get_database_url() -> str:
    """Return the site's database URL for an agent outside of Django."""
    database = settings.DATABASES["default"]
    is_file = database["ENGINE"] == "django.db.backends.sqlite3"
    return str(database["NAME"]) if is_file else env.read_text_setting("HARNESS_DATABASE_URL")
