import inspect
import json
import subprocess
import sys

import pytest

import checkpoints
from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.enums import CallStatus

#: What only one of the two can have: asynchronous callers run blocking work on a thread and hand their blocking twin
#: around.
ONLY_ASYNC = {"checkpointer_state", "run_blocking", "sync"}
PROPERTIES = {"store"}
#: What makes an object with async methods.
NOT_COROUTINES = {"open", "session"}


def in_a_fresh_process(code: str) -> object:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env={}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_import_alone_loads_no_django() -> None:
    loaded = in_a_fresh_process(
        "import sys, json, checkpoints\n"
        "print(json.dumps(sorted(name for name in sys.modules if name.split('.')[0] == 'django')))"
    )

    assert loaded == []


#: Names that are for databases alone.
DATABASE_NAMES = {"SessionFiles", "SyncSessionFiles", "SyncWriteBehind", "WriteBehind"}
AGENT_OF_A_SERVER = f"""
import json, sys
import checkpoints, checkpoints.enums, checkpoints.exceptions, checkpoints.loop_state, checkpoints.peers
names = sorted(set(checkpoints.__all__) - {DATABASE_NAMES!r})
imported = [getattr(checkpoints, name) for name in names]
with checkpoints.SyncCheckpointer("http://127.0.0.1:9", token="t"):
    checkpoints.Checkpointer("http://127.0.0.1:9", token="t")
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}} & {{"asgiref", "django", "sqlparse"}})))
"""
#: As where Django is not installed.
HIDE_DJANGO = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"asgiref", "django", "sqlparse"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
"""
OPEN_WITHOUT_DJANGO = f"""
import importlib, json
import checkpoints
said = []
tried = [
    *(lambda name=name: getattr(checkpoints, name) for name in {sorted(DATABASE_NAMES)!r}),
    *(
        lambda name=name: importlib.import_module(f"checkpoints.{{name}}")
        for name in ("adapters", "importers", "models", "testing")
    ),
    lambda: checkpoints.SyncCheckpointer("agent.db"),
    lambda: checkpoints.Checkpointer.open("sqlite:///agent.db"),
    lambda: checkpoints.SyncCheckpointer(),
]
for use in tried:
    try:
        use()
    except checkpoints.exceptions.DjangoMissing as error:
        said.append(error.hint.split(":")[0])
print(json.dumps([len(tried), said]))
"""


#: The second thread opens its client while Django, configured for the first one, still loads its apps.
OPEN_ON_TWO_THREADS = """
import json, tempfile, threading, time
from django.apps import AppConfig
import checkpoints
folder, opened, is_loading, create = tempfile.mkdtemp(), [], threading.Event(), AppConfig.create
def create_slowly(entry):
    is_loading.set()
    time.sleep(0.3)
    return create(entry)
AppConfig.create = create_slowly
def open_client(name):
    with checkpoints.SyncCheckpointer(f"{folder}/{name}.db"):
        opened.append(name)
first, second = (threading.Thread(target=open_client, args=(name,)) for name in ("first", "second"))
first.start()
is_loading.wait()
second.start()
first.join()
second.join()
print(json.dumps(sorted(opened)))
"""


def test_two_threads_open_the_first_clients_of_a_program() -> None:
    assert in_a_fresh_process(OPEN_ON_TWO_THREADS) == ["first", "second"]


def test_agent_of_a_server_imports_no_django() -> None:
    assert in_a_fresh_process(AGENT_OF_A_SERVER) == []


def test_agent_of_a_server_needs_no_django() -> None:
    assert in_a_fresh_process(HIDE_DJANGO + AGENT_OF_A_SERVER) == []


def test_what_needs_a_database_says_without_django_what_to_install() -> None:
    assert in_a_fresh_process(HIDE_DJANGO + OPEN_WITHOUT_DJANGO) == [11, 11 * ["Install it"]]


def test_every_public_name_can_be_imported_without_settings() -> None:
    names = in_a_fresh_process(
        "import json, checkpoints\n"
        "print(json.dumps([name for name in checkpoints.__all__ if getattr(checkpoints, name) is None]))"
    )

    assert names == []


def test_importers_and_labels_can_be_used_without_settings() -> None:
    """A program may import the importers or show a status label before settings are configured."""
    label = in_a_fresh_process(
        "import json, checkpoints.importers.claude_code\n"
        "from checkpoints.enums import CallStatus\n"
        "print(json.dumps(str(CallStatus.ISSUED.label)))"
    )

    assert label == "Issued"


def test_text_is_in_an_enumeration_that_has_it() -> None:
    texts: list[object] = ["completed", CallStatus.COMPLETED, "paid", "", None, 1, []]

    assert [text in CallStatus for text in texts] == [True, True, False, False, False, False, False]


def test_public_names_are_those_of_the_contract() -> None:
    contract = {
        "Checkpointer",
        "SyncCheckpointer",
        "ToolRegistry",
        "ToolResult",
        "tool",
        "check_pending_tool_calls",
        "exceptions",
        "Landed",
        "NotLanded",
        "Unknown",
        "UNCHANGED",
        "ResumePoint",
        "Actor",
        "Tool",
        "Workflow",
        "SyncWorkflow",
        "SessionFiles",
        "SyncSessionFiles",
        "SessionHandle",
        "SyncSessionHandle",
        "RuntimeSnapshot",
        "Cadence",
        "WriteBehind",
        "SyncWriteBehind",
        "ToolPolicies",
        "ValueCodec",
        "aguard",
        "guard",
    }

    assert set(checkpoints.__all__) == contract


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Checkpointr'"):
        checkpoints.__getattr__("Checkpointr")


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_both_checkpointers_have_the_same_methods() -> None:
    assert public(Checkpointer) - ONLY_ASYNC == public(SyncCheckpointer) - ONLY_ASYNC


@pytest.mark.parametrize("name", sorted((public(SyncCheckpointer) - ONLY_ASYNC - PROPERTIES) | {"__init__"}))
def test_both_checkpointers_have_the_same_signature(name: str) -> None:
    blocking, asynchronous = (inspect.signature(getattr(kind, name)) for kind in (SyncCheckpointer, Checkpointer))

    assert list(asynchronous.parameters.values()) == list(blocking.parameters.values())
    assert asynchronous.return_annotation == blocking.return_annotation.removeprefix("Sync")


@pytest.mark.parametrize("name", sorted(public(SyncCheckpointer) - ONLY_ASYNC - PROPERTIES - NOT_COROUTINES))
def test_async_methods_are_coroutines(name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(Checkpointer, name)) is True
    assert inspect.iscoroutinefunction(getattr(SyncCheckpointer, name)) is False
