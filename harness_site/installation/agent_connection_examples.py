"""Ways to connect an agent, each with a program that runs as it stands.

A new way is one more entry of `CONNECTIONS` with a function that builds its blocks.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.db import connection
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from checkpoints.seals.decision_keys import VERIFY_SETTING, get_decision_keys
from checkpoints.seals.seal_keys import KEY_SETTING, get_seal_keys
from checkpoints.seals.witness import SETTING as WITNESS_SETTING
from checkpoints.seals.witness import get_witness
from harness_site.core.management_command_invocation import prefix_management_command_with_program
from harness_site.database_role_privileges import format_psql_command_of_administrator, may_create_roles
from harness_site.env import BASE_DIR, IS_CHECKOUT
from harness_site.installation import example_agent_sources
from harness_site.site_address import build_absolute_url

#: Name of the first login of agents.
_LOGIN: Final = "my_agent"


@dataclass(frozen=True)
class Block:
    """Text to copy, with a sentence before it. A program has a file to save it in and a command that runs it."""

    key: str
    sentence: str
    text: str
    language: str = "python"
    file: str = ""
    command: str = ""


@dataclass(frozen=True)
class Connection:
    """Way to connect an agent: `key` is part of the URL."""

    key: str
    label: str | Promise
    build_blocks: Callable[[], list[Block]]
    #: Program whose tool call waits for an approval; empty where there is none.
    approval_program: str = ""


def build_python_example_blocks() -> list[Block]:
    """Build the blocks for a program that knows the database's URL."""
    return [*_build_database_setup_blocks(""), _build_program_block(example_agent_sources.PYTHON)]


def build_langgraph_example_blocks() -> list[Block]:
    return [*_build_database_setup_blocks("langgraph"), _build_program_block(example_agent_sources.LANGGRAPH)]


def build_claude_example_blocks() -> list[Block]:
    """Build the blocks for the Claude Agent SDK, whose program cannot be scripted."""
    sentence = _("Save this program under this name, and run the command where Claude Code is signed in:")
    return [*_build_database_setup_blocks("claude"), _build_program_block(example_agent_sources.CLAUDE, sentence)]


def build_google_adk_example_blocks() -> list[Block]:
    return [*_build_database_setup_blocks("google-adk"), _build_program_block(example_agent_sources.GOOGLE_ADK)]


def build_openai_agents_example_blocks() -> list[Block]:
    return [*_build_database_setup_blocks("openai-agents"), _build_program_block(example_agent_sources.OPENAI_AGENTS)]


def build_pydantic_ai_example_blocks() -> list[Block]:
    return [*_build_database_setup_blocks("pydantic-ai"), _build_program_block(example_agent_sources.PYDANTIC_AI)]


def build_strands_example_blocks() -> list[Block]:
    return [*_build_database_setup_blocks("strands"), _build_program_block(example_agent_sources.STRANDS)]


def build_django_example_blocks() -> list[Block]:
    """Build the blocks for a Django project that shares this database."""
    return [
        Block(
            "settings",
            _("In a Django project on the same database, install the library and add its app to the settings:"),
            'INSTALLED_APPS += ["checkpoints"]',
        ),
        Block(
            "program",
            _("Save this program beside manage.py, replace mysite by the name of your project, and run it:"),
            example_agent_sources.DJANGO,
        ),
    ]


def build_http_example_blocks() -> list[Block]:
    """Build the blocks for a program that reaches this site over HTTP, and has no connection to the database."""
    address = build_absolute_url(reverse("harness:home")).rstrip("/")
    return [
        Block(
            "shell",
            _("Install the library, and put the token in the place of TOKEN:"),
            f'pip install "{_get_pip_requirement("remote")}"\n'
            f"export HARNESS_ADDRESS={address}\nexport HARNESS_TOKEN=TOKEN",
            "bash",
        ),
        _build_program_block(example_agent_sources.HTTP),
    ]


CONNECTIONS: Final = (
    Connection("python", "Python", build_python_example_blocks, example_agent_sources.PYTHON_APPROVAL),
    Connection("langgraph", "LangGraph", build_langgraph_example_blocks, example_agent_sources.LANGGRAPH_APPROVAL),
    Connection("claude", "Claude Agent SDK", build_claude_example_blocks, example_agent_sources.CLAUDE_APPROVAL),
    Connection("google-adk", "Google ADK", build_google_adk_example_blocks, example_agent_sources.GOOGLE_ADK_APPROVAL),
    Connection(
        "openai-agents",
        "OpenAI Agents",
        build_openai_agents_example_blocks,
        example_agent_sources.OPENAI_AGENTS_APPROVAL,
    ),
    Connection(
        "pydantic-ai", "Pydantic AI", build_pydantic_ai_example_blocks, example_agent_sources.PYDANTIC_AI_APPROVAL
    ),
    Connection("strands", "Strands Agents", build_strands_example_blocks, example_agent_sources.STRANDS_APPROVAL),
    Connection(
        "http", gettext_lazy("Python over HTTP"), build_http_example_blocks, example_agent_sources.HTTP_APPROVAL
    ),
    Connection(
        "django", gettext_lazy("Django project"), build_django_example_blocks, example_agent_sources.DJANGO_APPROVAL
    ),
)


def get_connection_or_first(key: str) -> Connection:
    """Return the way with this key, or the first one."""
    return next((way for way in CONNECTIONS if way.key == key), CONNECTIONS[0])


def _build_program_block(program: str, sentence: str = "") -> Block:
    return Block(
        "program",
        sentence or _("Save this program under this name, and run the command:"),
        program,
        file="first_agent.py",
        command="python first_agent.py",
    )


def _build_database_setup_blocks(framework: str) -> list[Block]:
    """Build the commands that create a login of agents, install the library, and name the database and the keys."""
    extras = [framework] if framework else []
    if connection.vendor != "sqlite":
        extras.append("postgres")
    if get_decision_keys() is not None:
        extras.append("secrets")
    install = f'pip install "{_get_pip_requirement(",".join(extras))}"'
    if connection.vendor == "sqlite":
        database = shlex.quote(_get_sqlite_path())
        sentence = _("Install the library on this machine, and tell it where the database is:")
        blocks = [Block("shell", sentence, f"{install}\nexport HARNESS_DATABASE_URL={database}", "bash")]
    else:
        sentence = _(
            "Where the agent runs, install the library. Then run the line there that the first command has printed:"
        )
        blocks = [_build_create_agent_login_block(), Block("shell", sentence, install, "bash")]
    lines = _list_seal_key_and_witness_export_lines()
    if lines:
        sentence = _(
            "This site verifies what agents write, so an agent needs these settings too. In the place of SEAL_KEY and "
            "WITNESS, put the values that the site has:"
        )
        blocks.append(Block("keys", sentence, "\n".join(lines), "bash"))
    return blocks


def _list_seal_key_and_witness_export_lines() -> list[str]:
    """List the commands that set the keys of an agent. Secret values are left out."""
    lines = []
    if get_seal_keys() is not None:
        lines.append(f"export {KEY_SETTING}=SEAL_KEY")
    decision_keys = get_decision_keys()
    if decision_keys is not None:
        public = ",".join(key.public_bytes_raw().hex() for key in decision_keys.verifying.values())
        lines.append(f"export {VERIFY_SETTING}={public}")
    if get_witness() is not None:
        lines.append(f"export {WITNESS_SETTING}=WITNESS")
    return lines


def _build_create_agent_login_block() -> Block:
    """Build the command that creates a login of agents, through an administrator if the site's login may not do it."""
    command = prefix_management_command_with_program(f"create_agent_login {_LOGIN}")
    if may_create_roles():
        sentence = _(
            "Where the site runs, with its settings, create a login that may do only what agents need. The command "
            "prints a line that begins with export:"
        )
        return Block("login", sentence, command, "bash")
    sentence = _(
        "Where the site runs, with its settings, create a login that may do only what agents need. The site itself may "
        "not create logins, so psql does it as an administrator of the database: if that person signs in to it in "
        "another way, change the command after the bar. A line that begins with export is printed:"
    )
    return Block("login", sentence, f"{command} --print-sql | {format_psql_command_of_administrator()}", "bash")


def _get_pip_requirement(extra: str) -> str:
    """Return what pip installs: the library as it is here, so that agents and site agree on the tables."""
    return f"{BASE_DIR if IS_CHECKOUT else 'harness-checkpoints'}{extra and f'[{extra}]'}"


def _get_sqlite_path() -> str:
    return str(connection.settings_dict["NAME"])
