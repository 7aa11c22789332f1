"""Overview of the commands of `harness`, printed in place of the list that Django makes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from django.core.management import find_commands

import checkpoints

#: Commands by purpose, each with what it does.
COMMANDS: Final[dict[str, dict[str, str]]] = {
    "Set up and serve": {
        "migrate": "create or update the tables of the database",
        "createsuperuser": "create the first account",
        "setup_link": "print a link that creates the first account in the browser",
        "serve": "serve the site",
        "check": "check the settings; --deploy checks more",
    },
    "People and programs": {
        "add_member": "make an account a member of a workspace, or change its role",
        "sign_in_link": "print a link that signs an account in once",
        "reset_factors": "remove the second factors of somebody who has lost them",
        "changepassword": "change the password of an account",
        "create_token": "create an API token and print it",
        "create_agent_login": "create a PostgreSQL login role for agents with the rights that they need",
        "database_roles": "print SQL for the roles of agents, the site and migrations",
    },
    "Sessions": {
        "pending": "list the unfinished calls: running, interrupted or awaiting approval",
        "export_session": "write a session to a file",
        "import_session": "import a session from such a file",
        "import_transcripts": "import transcripts of other programs",
        "apply_prices": "estimate the cost of imported sessions",
        "prune": "remove old versions",
        "delete_session": "delete sessions",
    },
    "Integrity": {
        "verify_audit": "check that the audit trail was not changed",
        "verify_integrity": "check the seals and signed decisions of sessions",
        "seal_sessions": "seal rows that were stored before HARNESS_SEAL_KEY was set",
        "make_decision_keys": "make the keys for the signatures of decisions",
        "sign_decisions": "sign decisions that were recorded before their key was set",
        "witness": "create the witness, or adopt the state of the database",
    },
    "Work that web processes do by themselves": {
        "sweep": "end runs that are gone",
        "deliver": "send notifications that are due",
        "index_search": "update the search index and the sums of the overview",
    },
    "Assistants": {
        "mcp": "serve sessions and decisions to an assistant over MCP",
        "mcp-guard": "log and hold the calls of an MCP server",
    },
}
#: Commands beside those of the library that do not need the packages of the site.
_WITHOUT_THE_SITE: Final = frozenset({"migrate", "check", "mcp", "mcp-guard"})
#: Commands that do their work, or begin it, without a database.
_WITHOUT_A_DATABASE: Final = frozenset({"serve", "check", "make_decision_keys", "mcp", "mcp-guard"})


def does_command_need_site_packages(command: str) -> bool:
    """Return whether a command of the overview exists only with the packages of the site."""
    return (
        any(command in commands for commands in COMMANDS.values())
        and command not in _find_commands_usable_without_site_extra()
    )


def does_command_need_database(command: str) -> bool:
    """Return whether a command of the overview cannot begin without its database."""
    return any(command in commands for commands in COMMANDS.values()) and command not in _WITHOUT_A_DATABASE


def format_overview(program: str = "harness", *, is_site_installed: bool) -> str:
    """Format the overview; without the packages of the site it lists only the commands of the library."""
    library = _find_commands_usable_without_site_extra()
    lines = [f"Harness {checkpoints.__version__}. Usage: {program} COMMAND [options]", ""]
    for title, commands in COMMANDS.items():
        shown = {name: text for name, text in commands.items() if is_site_installed or name in library}
        if shown:
            lines += [f"{title}:", *(f"  {name:<19} {text}" for name, text in shown.items()), ""]
    if not is_site_installed:
        lines += ['The site brings more commands: pip install "harness-checkpoints[site]"']
    lines += [
        f"{program} COMMAND --help describes the options of a command.",
        f"{program} help --commands also lists the commands of Django.",
        f"{program} --version prints the version.",
    ]
    return "\n".join(lines)


def _find_commands_usable_without_site_extra() -> frozenset[str]:
    return _WITHOUT_THE_SITE | frozenset(find_commands(str(Path(checkpoints.__file__).parent / "management")))
