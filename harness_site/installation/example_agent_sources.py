"""Programs that connect a first agent, each complete. Models are scripted, so that a program needs no key."""

from typing import Final

_TOOL: Final = """registry = ToolRegistry()


@registry.tool(%(options)s)
async def send_note(text: str) -> str:
    return f"sent: {text}"


# What a person asks, and what a model would answer.
QUESTION = {"role": "user", "content": "Send a note"}
CALL = {"id": "call_1", "name": "send_note", "args": {"text": "hello"}}
ANSWER = {"role": "assistant", "content": "I am sending it.", "tool_calls": [CALL]}
"""
_LOOP: Final = """async def main():
    async with Checkpointer(%(database)s) as cp:
        async with cp.session("%(session)s", "Send a note", agent="my-agent", registry=registry) as session:
            if session.version == 0:
                await session.append([QUESTION, ANSWER])
            if not session.finished:
                result = await session.dispatch("send_note", CALL["args"], call_id="call_1")
                await session.append([{"role": "tool", "tool_call_id": "call_1", "content": result.content}])
                await session.finish("completed", result.content)
            print("The session is recorded:", session.result)


asyncio.run(main())
"""
#: The same loop, which waits for a decision, also when it is started again.
_WAITING_LOOP: Final = """async def main():
    async with Checkpointer(%(database)s) as cp:
        print("The note waits for your decision. Open Review in the browser.")
        handle = cp.session("%(session)s", "Send a note", agent="my-agent", registry=registry, wait=True)
        async with handle as session:
            if session.version == 0:
                await session.append([QUESTION, ANSWER])
            if not session.finished:
                result = await session.dispatch("send_note", CALL["args"], call_id="call_1", approval="wait")
                await session.append([{"role": "tool", "tool_call_id": "call_1", "content": result.content}])
                await session.finish("completed", result.content)
            print("The agent continued:", session.result)


asyncio.run(main())
"""
#: Last line of a program for a framework: its output says that it worked, and where to look.
_RECORDED: Final = 'print("The session is recorded. Open Sessions in the browser.")'
#: What the programs for frameworks print while they wait for a decision.
_WAITS: Final = 'print("The note waits for your decision. Open Review in the browser.", flush=True)'
_POLICY: Final = """policy = {"requires_approval": True, "sentence": "Send the note “{text}”"}
"""
_POLICIES: Final = f"""{_POLICY}policies = ToolPolicies({{"send_note": policy}})
"""
#: Without the variable, a program ends with what to do and not with a traceback. The page explains the other errors.
_REQUIRED_DATABASE: Final = """if not os.environ.get("HARNESS_DATABASE_URL"):
    sys.exit("Run the line that begins with export first, in this terminal.")

"""
_REQUIRED_SERVER: Final = """if not os.environ.get("HARNESS_URL") or not os.environ.get("HARNESS_TOKEN"):
    sys.exit("Run the lines that begin with export first, in this terminal.")

"""
_IMPORTS: Final = """import asyncio
import os
import sys

from checkpoints import Checkpointer, ToolRegistry

"""
_DJANGO_IMPORTS: Final = """import asyncio
import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
django.setup()

from checkpoints import Checkpointer, ToolRegistry

"""
_DATABASE: Final = 'os.environ["HARNESS_DATABASE_URL"]'
_SERVER: Final = 'os.environ["HARNESS_URL"], token=os.environ["HARNESS_TOKEN"]'


def _build_program_source(session: str, database: str, imports: str) -> str:
    tool = _TOOL % {"options": 'side_effects={"mutate"}'}
    return f"{imports}{tool}\n\n{_LOOP % {'session': session, 'database': database}}"


def _build_program_source_with_approval(session: str, database: str, imports: str) -> str:
    tool = _TOOL % {"options": 'requires_approval=True, sentence="Send the note “{text}”"'}
    return f"{imports}{tool}\n\n{_WAITING_LOOP % {'session': session, 'database': database}}"


# Each program has a session of its own: one that another program has finished would refuse it.
PYTHON: Final = _build_program_source("first-session", _DATABASE, _IMPORTS + _REQUIRED_DATABASE)
PYTHON_APPROVAL: Final = _build_program_source_with_approval("first-approval", _DATABASE, _IMPORTS + _REQUIRED_DATABASE)
HTTP: Final = _build_program_source("first-http-session", _SERVER, _IMPORTS + _REQUIRED_SERVER)
HTTP_APPROVAL: Final = _build_program_source_with_approval("first-http-approval", _SERVER, _IMPORTS + _REQUIRED_SERVER)
DJANGO: Final = _build_program_source("first-django-session", "", _DJANGO_IMPORTS)
DJANGO_APPROVAL: Final = _build_program_source_with_approval("first-django-approval", "", _DJANGO_IMPORTS)
_LANGGRAPH_MODEL: Final = f"""from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from checkpoints.adapters.langgraph import HarnessMiddleware, HarnessSaver

{_REQUIRED_DATABASE}
class ScriptedModel(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self


def send_note(text: str) -> str:
    \"\"\"Send a note.\"\"\"
    return f"sent: {{text}}"


call = {{"name": "send_note", "args": {{"text": "hello"}}, "id": "call_1"}}
model = ScriptedModel(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("The note is sent.")]))
"""
LANGGRAPH: Final = f"""import os
import sys

from langchain.agents import create_agent
{_LANGGRAPH_MODEL}\
with HarnessSaver.open(os.environ["HARNESS_DATABASE_URL"]) as saver:
    agent = create_agent(model, [send_note], checkpointer=saver, middleware=[HarnessMiddleware(saver)])
    question = {{"messages": [{{"role": "user", "content": "Send a note"}}]}}
    agent.invoke(question, {{"configurable": {{"thread_id": "first-langgraph-session"}}}})
{_RECORDED}
"""
LANGGRAPH_APPROVAL: Final = f"""import os
import sys
import time

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
{_LANGGRAPH_MODEL}\
thread = {{"configurable": {{"thread_id": "first-langgraph-approval"}}}}
with HarnessSaver.open(os.environ["HARNESS_DATABASE_URL"]) as saver:
    asks = HumanInTheLoopMiddleware(interrupt_on={{"send_note": True}})
    agent = create_agent(model, [send_note], checkpointer=saver, middleware=[asks, HarnessMiddleware(saver)])
    agent.invoke({{"messages": [{{"role": "user", "content": "Send a note"}}]}}, thread)
    print("The note waits for your decision. Open Review in the browser.", flush=True)
    while (command := saver.build_resume(thread)) is None:
        time.sleep(1)
    state = agent.invoke(command, thread)
    print("The agent continued:", state["messages"][-1].content)
"""
_OPENAI_AGENTS_MODEL: Final = f"""import asyncio
import os
import sys

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from checkpoints import Checkpointer%(imports)s
from checkpoints.adapters.openai_agents import HarnessSession, use_harness

{_REQUIRED_DATABASE}
@function_tool
def send_note(text: str) -> str:
    return f"sent: {{text}}"


call = function_call("send_note", {{"text": "hello"}}, call_id="call_1")
model = ScriptedModel([[call], [assistant_message("The note is sent.")]])
agent = Agent(name="my-agent", model=model, tools=[send_note])
"""
OPENAI_AGENTS: Final = (
    _OPENAI_AGENTS_MODEL % {"imports": ""}
    + f"""use_harness()


async def main():
    async with Checkpointer(os.environ["HARNESS_DATABASE_URL"]) as cp:
        session = HarnessSession("first-openai-agents-session", cp)
        await Runner.run(agent, "Send a note", session=session, run_config=RunConfig(tracing_disabled=True))
    {_RECORDED}


asyncio.run(main())
"""
)
OPENAI_AGENTS_APPROVAL: Final = (
    _OPENAI_AGENTS_MODEL % {"imports": ", ToolPolicies"}
    + f"""{_POLICIES}use_harness(policies)
options = {{"run_config": RunConfig(tracing_disabled=True)}}


async def main():
    async with Checkpointer(os.environ["HARNESS_DATABASE_URL"]) as cp:
        options["session"] = HarnessSession("first-openai-agents-approval", cp)
        result = await Runner.run(agent, "Send a note", **options)
        if result.interruptions:
            {_WAITS}
            while await cp.pending_tool_calls("first-openai-agents-approval"):
                await asyncio.sleep(1)
            result = await Runner.run(agent, "Send a note", **options)
        print("The agent continued:", result.final_output)


asyncio.run(main())
"""
)
_PYDANTIC_AI_TOOL: Final = f"""import asyncio
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
%(imports)s
from checkpoints.adapters.pydantic_ai import Harness, HarnessConversationStore

{_REQUIRED_DATABASE}
async def send_note(text: str) -> str:
    return f"sent: {{text}}"
"""
PYDANTIC_AI: Final = (
    _PYDANTIC_AI_TOOL % {"imports": ""}
    + f"""

async def main():
    async with HarnessConversationStore.aopen(os.environ["HARNESS_DATABASE_URL"]) as store:
        agent = Agent(TestModel(), tools=[send_note], capabilities=[Harness(store)])
        saved = await store.load("first-pydantic-ai-session")
        place = {{"conversation": saved}} if saved else {{"conversation_id": "first-pydantic-ai-session"}}
        result = await agent.run("Send a note", **place)
        await store.save(result)
    {_RECORDED}


asyncio.run(main())
"""
)
PYDANTIC_AI_APPROVAL: Final = (
    _PYDANTIC_AI_TOOL % {"imports": "\nfrom checkpoints import ToolPolicies"}
    + f"""

{_POLICIES}

async def main():
    async with HarnessConversationStore.aopen(os.environ["HARNESS_DATABASE_URL"]) as store:
        harness = Harness(store, policies, pause="wait")
        agent = Agent(TestModel(), tools=[send_note], capabilities=[harness])
        {_WAITS}
        saved = await store.load("first-pydantic-ai-approval")
        place = {{"conversation": saved}} if saved else {{"conversation_id": "first-pydantic-ai-approval"}}
        result = await agent.run("Send a note", **place)
        await store.save(result)
        print("The agent continued:", result.output)


asyncio.run(main())
"""
)
_STRANDS_MODEL: Final = f"""import os
import sys
%(first_import)s
from strands import Agent, tool
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager
%(imports)s
from checkpoints.adapters.strands import Harness, HarnessSessionRepository

{_REQUIRED_DATABASE}
class ScriptedModel(Model):
    def update_config(self, **config): ...

    def get_config(self):
        return {{}}

    def structured_output(self, *args, **options):
        raise NotImplementedError

    async def stream(self, messages, *args, **options):
        has_result = any("toolResult" in block for message in messages for block in message["content"])
        call = {{"name": "send_note", "toolUseId": "call_1"}}
        delta = {{"text": "The note is sent."}} if has_result else {{"toolUse": {{"input": '{{"text": "hello"}}'}}}}
        yield {{"messageStart": {{"role": "assistant"}}}}
        yield {{"contentBlockStart": {{"start": {{}} if has_result else {{"toolUse": call}}}}}}
        yield {{"contentBlockDelta": {{"delta": delta}}}}
        yield {{"contentBlockStop": {{}}}}
        yield {{"messageStop": {{"stopReason": "end_turn" if has_result else "tool_use"}}}}


@tool
def send_note(text: str) -> str:
    \"\"\"Send a note.\"\"\"
    return f"sent: {{text}}"


"""
STRANDS: Final = (
    _STRANDS_MODEL % {"first_import": "", "imports": ""}
    + f"""options = {{"tools": [send_note], "callback_handler": None}}
with HarnessSessionRepository.open(os.environ["HARNESS_DATABASE_URL"]) as repository:
    manager = RepositorySessionManager("first-strands-session", repository)
    harness = Harness("first-strands-session", repository)
    agent = Agent(ScriptedModel(), session_manager=manager, plugins=[harness], **options)
    agent(harness.build_responses() or "Send a note")
{_RECORDED}
"""
)
STRANDS_APPROVAL: Final = (
    _STRANDS_MODEL
    % {"first_import": "import time\n", "imports": "\nfrom checkpoints import SyncCheckpointer, ToolPolicies"}
    + f"""{_POLICIES}options = {{"tools": [send_note], "callback_handler": None}}
with SyncCheckpointer.open(os.environ["HARNESS_DATABASE_URL"]) as cp:
    repository = HarnessSessionRepository(cp)
    manager = RepositorySessionManager("first-strands-approval", repository)
    harness = Harness("first-strands-approval", repository, policies)
    agent = Agent(ScriptedModel(), session_manager=manager, plugins=[harness], **options)
    result = agent(harness.build_responses() or "Send a note")
    if result.stop_reason == "interrupt":
        {_WAITS}
        while cp.pending_tool_calls("first-strands-approval"):
            time.sleep(1)
        result = agent(harness.build_responses())
    print("The agent continued:", str(result).strip())
"""
)
_GOOGLE_ADK_MODEL: Final = f"""import asyncio
import os
import sys

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai import types
%(imports)s
from checkpoints.adapters.google_adk import Harness, HarnessSessionService

{_REQUIRED_DATABASE}
class ScriptedModel(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts]
        call = types.Part.from_function_call(name="send_note", args={{"text": "hello"}})
        has_result = any(part.function_response for part in parts)
        part = types.Part(text="The note is sent.") if has_result else call
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def send_note(text: str) -> str:
    \"\"\"Send a note.\"\"\"
    return f"sent: {{text}}"


"""
GOOGLE_ADK: Final = (
    _GOOGLE_ADK_MODEL % {"imports": ""}
    + f"""async def main():
    place = {{"user_id": "first-user", "session_id": "first-google-adk-session"}}
    async with HarnessSessionService.aopen(os.environ["HARNESS_DATABASE_URL"]) as service:
        harness = Harness(service)
        agent = LlmAgent(name="notes", model=ScriptedModel(), tools=[send_note])
        app = App(name="notes", root_agent=agent, plugins=[harness])
        runner = Runner(app=app, session_service=service, auto_create_session=True)
        message = await harness.build_confirmations(app_name="notes", **place)
        if message is None:
            message = types.Content(role="user", parts=[types.Part(text="Send a note")])
        async for event in runner.run_async(**place, new_message=message):
            pass
    {_RECORDED}


asyncio.run(main())
"""
)
GOOGLE_ADK_APPROVAL: Final = (
    _GOOGLE_ADK_MODEL % {"imports": "\nfrom checkpoints import ToolPolicies"}
    + f"""{_POLICIES}

async def main():
    place = {{"user_id": "first-user", "session_id": "first-google-adk-approval"}}
    async with HarnessSessionService.aopen(os.environ["HARNESS_DATABASE_URL"]) as service:
        harness = Harness(service, policies)
        agent = LlmAgent(name="notes", model=ScriptedModel(), tools=[send_note])
        app = App(name="notes", root_agent=agent, plugins=[harness])
        runner = Runner(app=app, session_service=service, auto_create_session=True)
        message = await harness.build_confirmations(app_name="notes", **place)
        if message is None:
            message = types.Content(role="user", parts=[types.Part(text="Send a note")])
        events = [event async for event in runner.run_async(**place, new_message=message)]
        if any(event.actions.requested_tool_confirmations for event in events):
            {_WAITS}
            while (message := await harness.build_confirmations(app_name="notes", **place)) is None:
                await asyncio.sleep(1)
            events = [event async for event in runner.run_async(**place, new_message=message)]
        print("The agent continued:", events[-1].content.parts[0].text)


asyncio.run(main())
"""
)
CLAUDE: Final = (
    """import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, query

from checkpoints import ToolPolicies
from checkpoints.adapters.claude import READING_TOOLS, HarnessSessionStore, tool_hooks

"""
    + _REQUIRED_DATABASE
    + f"""
async def main():
    async with HarnessSessionStore.open(os.environ["HARNESS_DATABASE_URL"]) as store:
        options = ClaudeAgentOptions(
            session_store=store, session_store_flush="eager", hooks=tool_hooks(store, ToolPolicies(READING_TOOLS))
        )
        async for message in query(prompt="Say hello", options=options):
            print(message)
    {_RECORDED}


asyncio.run(main())
"""
)
CLAUDE_APPROVAL: Final = (
    """import asyncio
import os
import sys
import uuid
from dataclasses import replace

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    create_sdk_mcp_server,
    project_key_for_directory,
    query,
    tool,
)

from checkpoints import ToolPolicies
from checkpoints.adapters.claude import READING_TOOLS, HarnessSessionStore, tool_hooks

"""
    + _REQUIRED_DATABASE
    + f"""NAME = "mcp__notes__send_note"
{_POLICY}policies = ToolPolicies({{**READING_TOOLS, NAME: policy}})


@tool("send_note", "Send a note.", {{"text": str}})
async def send_note(args):
    return {{"content": [{{"type": "text", "text": f"sent: {{args['text']}}"}}]}}


async def ask(prompt, options):
    results = [message async for message in query(prompt=prompt, options=options) if isinstance(message, ResultMessage)]
    return results[0]


async def main():
    session = str(uuid.uuid4())
    async with HarnessSessionStore.open(os.environ["HARNESS_DATABASE_URL"]) as store:
        options = ClaudeAgentOptions(
            session_store=store,
            session_store_flush="eager",
            hooks=tool_hooks(store, policies),
            mcp_servers={{"notes": create_sdk_mcp_server("notes", tools=[send_note])}},
            allowed_tools=[NAME],
        )
        result = await ask("Send the note: hello", replace(options, session_id=session))
        if result.deferred_tool_use:
            {_WAITS}
            while await store.checkpointer.pending_tool_calls(f"{{project_key_for_directory()}}/{{session}}"):
                await asyncio.sleep(1)
            result = await ask("Please continue.", replace(options, resume=session))
        print("The agent continued:", result.result)


asyncio.run(main())
"""
)
_TYPESCRIPT_BEGINNING: Final = """import { Harness } from "harness-client";

if (!process.env.HARNESS_URL || !process.env.HARNESS_TOKEN) {
  console.error("Run the lines that begin with export first, in this terminal.");
  process.exit(1);
}
const tools = {
  send_note: {
%(options)s    run: async ({ text }) => `sent: ${text}`,
  },
};
// What a person asks, and what a model would answer.
const question = { role: "user", content: "Send a note" };
const call = { id: "call_1", name: "send_note", args: { text: "hello" } };
const answer = { role: "assistant", content: "I am sending it.", tool_calls: [call] };

const harness = new Harness(process.env.HARNESS_URL, process.env.HARNESS_TOKEN);
"""
_TYPESCRIPT_LOOP: Final = """if (session.version === 0) await session.append([question, answer]);
if (!session.finished) {
  const result = await session.dispatch("send_note", call.args, call.id%(approval)s);
  await session.append([{ role: "tool", tool_call_id: call.id, content: result.content }]);
  await session.finish("completed", result.content);
}
"""
TYPESCRIPT: Final = (
    _TYPESCRIPT_BEGINNING % {"options": ""}
    + """const options = { agent: "my-agent", userMessage: question.content, tools };
const session = await harness.open("first-typescript-session", options);
"""
    + _TYPESCRIPT_LOOP % {"approval": ""}
    + """console.log("The session is recorded. Open Sessions in the browser.");
"""
)
TYPESCRIPT_APPROVAL: Final = (
    _TYPESCRIPT_BEGINNING % {"options": '    requiresApproval: true,\n    sentence: "Send the note “{text}”",\n'}
    + """console.log("The note waits for your decision. Open Review in the browser.");
const options = { agent: "my-agent", userMessage: question.content, tools, wait: true };
const session = await harness.open("first-typescript-approval", options);
"""
    + _TYPESCRIPT_LOOP % {"approval": ', { approval: "wait" }'}
    + """console.log("The agent continued.");
"""
)
_MCP_PROGRAM: Final = f"""import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

server = MCPServer("notes")


@server.tool()
def send_note(text: str) -> str:
    return f"sent: {{text}}"


if sys.argv[1:] == ["serve"]:
    server.run()
    sys.exit()
{_REQUIRED_SERVER}
async def main():
    # The guard stands between this client and its server.
    guard = ["mcp-guard", "--session", "%(session)s", "--policy", "send_*: %(policy)s", %(options)s"--"]
    command = [sys.executable, os.path.abspath(__file__), "serve"]
    guarded = StdioServerParameters(command="harness", args=[*guard, *command], env=dict(os.environ))
    async with Client(guarded) as client:
%(calls)s

asyncio.run(main())
"""
MCP: Final = _MCP_PROGRAM % {
    "session": "first-mcp-session",
    "policy": "mutate",
    "options": "",
    "calls": f"""        await client.call_tool("send_note", {{"text": "hello"}})
    {_RECORDED}
""",
}
MCP_APPROVAL: Final = _MCP_PROGRAM % {
    "session": "first-mcp-approval",
    "policy": "mutate + approval",
    "options": '"--wait", "3600", ',
    "calls": f"""        {_WAITS}
        result = await client.call_tool("send_note", {{"text": "hello"}})
    print("The agent continued:", result.content[0].text)
""",
}
OPENTELEMETRY: Final = """now=$(date +%s)
curl -sS --fail-with-body "$HARNESS_URL/v1/traces" \\
  -H "Authorization: Bearer ${HARNESS_TOKEN:?Run the lines that begin with export first, in this terminal.}" \\
  -H "Content-Type: application/json" -d '{"resourceSpans": [{"scopeSpans": [{"spans": [{
    "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "chat",
    "startTimeUnixNano": "'$now'000000000", "endTimeUnixNano": "'$now'400000000", "attributes": [
      {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
      {"key": "gen_ai.agent.name", "value": {"stringValue": "my-agent"}},
      {"key": "gen_ai.conversation.id", "value": {"stringValue": "first-opentelemetry-session"}},
      {"key": "gen_ai.input.messages", "value": {"stringValue":
        "[{\\"role\\": \\"user\\", \\"parts\\": [{\\"type\\": \\"text\\", \\"content\\": \\"Send a note\\"}]}]"}},
      {"key": "gen_ai.output.messages", "value": {"stringValue":
        "[{\\"role\\": \\"assistant\\", \\"parts\\": [{\\"type\\": \\"text\\", \\"content\\": \\"Sent.\\"}]}]"}}
    ]}]}]}]}'
"""
