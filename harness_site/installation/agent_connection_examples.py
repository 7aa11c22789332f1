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

from checkpoints.models import Session
from checkpoints.seals.decision_keys import VERIFY_SETTING, get_decision_keys
from checkpoints.seals.seal_keys import KEY_SETTING, get_seal_keys
from checkpoints.seals.witness import SETTING as WITNESS_SETTING
from checkpoints.seals.witness import get_witness
from harness_site.core.management_command_as_typed import prefix_management_command_with_program
from harness_site.env import BASE_DIR, IS_CHECKOUT
from harness_site.installation import example_agent_sources
from harness_site.postgresql_role_statements import format_psql_command_of_administrator, may_create_roles
from harness_site.site_address import build_absolute_url

_FILE_ENDINGS: Final = {"python": ".py", "javascript": ".mjs", "bash": ".sh"}
_INTERPRETERS: Final = {"python": "python", "javascript": "node", "bash": "bash"}
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
    """Way to connect an agent: `key` is part of the URL, `session_id` the session of its program.

    `session_id` is empty where the framework makes the id; then `agent` is the name of its agent.
    `approval_program` has a tool call that waits for an approval; it is empty where calls are only observed.
    """

    key: str
    label: str | Promise
    build_blocks: Callable[[], list[Block]]
    session_id: str
    approval_program: str = ""
    agent: str = ""
    needs_token: bool = False
    language: str = "python"

    @property
    def approval_file(self) -> str:
        return f"first_approval{_FILE_ENDINGS[self.language]}"

    @property
    def approval_command(self) -> str:
        return f"{_INTERPRETERS[self.language]} {self.approval_file}"


@dataclass(frozen=True)
class ConnectionGroup:
    """Ways to connect that stand in one line of the page."""

    label: str | Promise
    connections: tuple[Connection, ...]


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
    return [
        Block(
            "shell",
            _("Install the library, and put the token in the place of TOKEN:"),
            f'pip install "{_get_pip_requirement("remote")}"\n{_build_token_export_lines()}',
            "bash",
        ),
        _build_program_block(example_agent_sources.HTTP),
    ]


def build_typescript_example_blocks() -> list[Block]:
    """Build the blocks for Node.js. The client is in the sources only, and is built there."""
    sentence = _("Build the client and install it, and put the token in the place of TOKEN:")
    if not IS_CHECKOUT:
        sentence = _(
            "The client is in the sources of Harness. Put their folder in the place of SOURCES, and the token in the "
            "place of TOKEN:"
        )
    folder = shlex.quote(f"{BASE_DIR if IS_CHECKOUT else 'SOURCES'}/clients/typescript")
    install = f"(cd {folder} && npm install && npm run build)\nnpm install {folder}"
    return [
        Block("shell", sentence, f"{install}\n{_build_token_export_lines()}", "bash"),
        _build_program_block(example_agent_sources.TYPESCRIPT, language="javascript"),
    ]


def build_mcp_guard_example_blocks() -> list[Block]:
    """Build the blocks for an MCP server behind the guard."""
    sentence = _("Install the library and the command, and put the token in the place of TOKEN:")
    lines = f'pip install "{_get_pip_requirement("mcp")}"\n{_build_token_export_lines()}'
    own_server = _(
        "This program is a server with one tool, and its client. For a server of your own, write harness mcp-guard -- "
        "in front of its command in the settings of your client. Save the program under this name, and run the command:"
    )
    return [Block("shell", sentence, lines, "bash"), _build_program_block(example_agent_sources.MCP, own_server)]


def build_opentelemetry_example_blocks() -> list[Block]:
    """Build the blocks for spans: the variables of an instrumented agent, and one span."""
    headers = '"Authorization=Bearer%20$HARNESS_TOKEN"'
    lines = (
        f"{_build_token_export_lines()}\n"
        'export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="$HARNESS_URL/v1/traces"\n'
        "export OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf\n"
        f"export OTEL_EXPORTER_OTLP_TRACES_HEADERS={headers}"
    )
    sentence = _(
        "Put the token in the place of TOKEN. An instrumented agent that runs with these variables is shown as a "
        "session. Its calls have run already, so they never wait for a decision:"
    )
    one_span = _(
        "To try it without an agent, save this script, which sends one span, under this name, and run the command:"
    )
    program = _build_program_block(example_agent_sources.OPENTELEMETRY, one_span, "bash")
    return [Block("shell", sentence, lines, "bash"), program]


def _build_token_export_lines() -> str:
    address = build_absolute_url(reverse("harness:home")).rstrip("/")
    return f"export HARNESS_URL={address}\nexport HARNESS_TOKEN=TOKEN"


_PYTHON: Final = (
    Connection("python", "Python", build_python_example_blocks, "first-session", example_agent_sources.PYTHON_APPROVAL),
    Connection(
        "django",
        gettext_lazy("Django project"),
        build_django_example_blocks,
        "first-django-session",
        example_agent_sources.DJANGO_APPROVAL,
    ),
    Connection(
        "http",
        gettext_lazy("Python over HTTP"),
        build_http_example_blocks,
        "first-http-session",
        example_agent_sources.HTTP_APPROVAL,
        needs_token=True,
    ),
)
_FRAMEWORKS: Final = (
    Connection(
        "claude",
        "Claude Agent SDK",
        build_claude_example_blocks,
        "",
        example_agent_sources.CLAUDE_APPROVAL,
        agent="claude-code",
    ),
    Connection(
        "google-adk",
        "Google ADK",
        build_google_adk_example_blocks,
        "notes/first-user/first-google-adk-session",
        example_agent_sources.GOOGLE_ADK_APPROVAL,
    ),
    Connection(
        "langgraph",
        "LangGraph",
        build_langgraph_example_blocks,
        "first-langgraph-session",
        example_agent_sources.LANGGRAPH_APPROVAL,
    ),
    Connection(
        "openai-agents",
        "OpenAI Agents",
        build_openai_agents_example_blocks,
        "first-openai-agents-session",
        example_agent_sources.OPENAI_AGENTS_APPROVAL,
    ),
    Connection(
        "pydantic-ai",
        "Pydantic AI",
        build_pydantic_ai_example_blocks,
        "first-pydantic-ai-session",
        example_agent_sources.PYDANTIC_AI_APPROVAL,
    ),
    Connection(
        "strands",
        "Strands Agents",
        build_strands_example_blocks,
        "first-strands-session",
        example_agent_sources.STRANDS_APPROVAL,
    ),
)
_OTHERS: Final = (
    Connection(
        "typescript",
        "TypeScript",
        build_typescript_example_blocks,
        "first-typescript-session",
        example_agent_sources.TYPESCRIPT_APPROVAL,
        needs_token=True,
        language="javascript",
    ),
    Connection(
        "mcp",
        gettext_lazy("MCP server"),
        build_mcp_guard_example_blocks,
        "first-mcp-session",
        example_agent_sources.MCP_APPROVAL,
        needs_token=True,
    ),
    Connection(
        "opentelemetry",
        "OpenTelemetry",
        build_opentelemetry_example_blocks,
        "first-opentelemetry-session",
        needs_token=True,
        language="bash",
    ),
)
CONNECTION_GROUPS: Final = (
    ConnectionGroup("Python", _PYTHON),
    ConnectionGroup(gettext_lazy("Frameworks"), _FRAMEWORKS),
    ConnectionGroup(gettext_lazy("Other"), _OTHERS),
)
CONNECTIONS: Final = (*_PYTHON, *_FRAMEWORKS, *_OTHERS)


def get_connection_or_first(key: str) -> Connection:
    """Return the way with this key, or the first one."""
    return next((way for way in CONNECTIONS if way.key == key), CONNECTIONS[0])


def find_connection_of_session(session: Session) -> Connection:
    """Return the way whose program made this session, or the first one; always one with a program for an approval."""
    for way in CONNECTIONS:
        is_own = session.session_id == way.session_id or session.agent == (way.agent or None)
        if is_own and way.approval_program:
            return way
    return CONNECTIONS[0]


def _build_program_block(program: str, sentence: str = "", language: str = "python") -> Block:
    file = f"first_agent{_FILE_ENDINGS[language]}"
    return Block(
        "program",
        sentence or _("Save this program under this name, and run the command:"),
        program,
        language,
        file,
        f"{_INTERPRETERS[language]} {file}",
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
    lines = _list_key_and_witness_export_lines()
    if lines:
        sentence = _(
            "This site verifies what agents write, so an agent needs these settings too. In the place of SEAL_KEY and "
            "WITNESS, put the values that the site has:"
        )
        blocks.append(Block("keys", sentence, "\n".join(lines), "bash"))
    return blocks


def _list_key_and_witness_export_lines() -> list[str]:
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
