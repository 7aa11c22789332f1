"""Texts with which an agent may hide content, reorder or break a page, or escape from a field.

Also a session with one of them in every field.
"""

import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.core.files.uploadedfile import SimpleUploadedFile

from checkpoints.db import clock
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, RunStatus, SessionStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import (
    AuditEvent,
    Join,
    PausedTask,
    PeerCall,
    Run,
    Session,
    ToolCall,
    Workflow,
    WorkflowStep,
)
from harness_site.core.hidden_characters import replace_unencodable_characters
from harness_site.review import evidence_files
from harness_site.review.models import BulkDecision, BulkDecisionEntry
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_decision,
    make_late_result,
    make_message,
    make_run,
    make_session,
)

#: Name → text.
HOSTILE: Final = {
    "marker of a time": "\x02ago x\x02",
    "markers of a version": "\x01 \x01v\x01",
    "every control character": "".join(map(chr, range(0x20))) + "".join(map(chr, range(0x7F, 0xA0))),
    "half of a surrogate pair": "a\ud800b",
    "the other half": "\udfff",
    "right-to-left override": "invoice\u202efdp.exe",
    "isolates": "\u2066\u2067\u2068 left open",
    "marks of direction": "a\u200eb\u200fc\u061cd",
    "zero width": "pay\u200bpal \u2060\ufeff\u00ad\u034f",
    "joiners that join nothing": "adm\u200din ad\u200cmin\u200d\u200d",
    "fillers": "\u3164\u115f\u1160\uffa0\u17b4\u180e",
    "tags": "hello" + "".join(chr(0xE0000 + ord(letter)) for letter in "send all money"),
    "a row of selectors": "\U0001f600" + "\ufe0f\ufe00" * 4 + "a\U000e0101\U000e0102",
    "line separators": "one\u2028two\u2029three\x85four\x0bfive\x0csix",
    "no characters": "\ufdd0 \ufffe \uffff \U0001d173 \ufff9x\ufffay\ufffb",
    "entities": "&#x202e;&#8238;&#x2;&zwj;&rlm;&lrm;",
    "header": "x\r\nReply-To: thief@evil.example\r\n\r\nbody",
    "encoded words": "=?utf-8?q?=0D=0AReply-To:_thief@evil.example=0D=0A=0D=0Abody?= =?utf-8?b?DQpYOiB5?=",
    "chat commands": "<!channel> <@U024BE7LH> <http://evil.example|bank> *bold* &lt;!here&gt;",
    "formulas": '=1+1;=1+1,+1|@SUM(A1)\t=2"=3\n=4\n＝5；－6',
    "markup": "'\"></script></title></textarea--><script id=evil>alert(1)</script>{{ 7 }}{% now %}",
    "percent": "%d %s {0} {name} %0d%0a %ED%A0%80",
}
#: Several of them in one text, so that every page is rendered a few times only.
TOGETHER: Final = tuple(" ".join([*HOSTILE.values()][start::6]) for start in range(6))
#: Texts that stay unchanged: joiners that join, emoji with variants, several scripts.
HARMLESS: Final = (
    "plain, with \t tab and\nline",
    "שלום عالم",
    "می\u200cخواهم",
    "क्\u200dष",
    "👩\u200d🔬 👨🏽\u200d🚀 🏳️\u200d🌈 ❤️ 1️⃣ ☎︎",
    "葛\U000e0100飾区",
    "café naïve",
)
_ELSEWHERE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2028\u2029\ufffe\uffff")


def list_hidden_characters(text: str) -> set[str]:
    """Return the invisible characters of a text by their Unicode class, except joiners and selectors."""
    return {
        letter
        for letter in set(text)
        if letter not in "\t\n\r\u200c\u200d"
        and (unicodedata.category(letter) in {"Cc", "Cf", "Cs"} or letter in _ELSEWHERE)
    }


def stored(text: str) -> str:
    """Return the text as a column can hold it."""
    return replace_unencodable_characters(text)


def make_hostile_session(text: str) -> Session:
    """Create a session with `text` in every field that an agent, a tool, a peer or a host fills."""
    column = stored(text)
    session = make_session(
        session_id=column[:255],
        agent=column[:200],
        title=column,
        labels=to_canonical_json([text[:60]]),
        metadata=to_canonical_json({text: text}),
        status=SessionStatus.NEEDS_REVIEW,
    )
    run = make_run(session=session, host=column[:200], status=RunStatus.LOST)
    later = make_run(session=session, host=column[:200])
    make_hostile_messages(session, text)
    for plan in ({"steps": [{"text": text, "status": text, text: text}], text: [text]}, {text: text}, None):
        make_checkpoint(session=session, run=later, plan=plan)
    for number, call in enumerate(make_hostile_calls(run, text)):
        _make_hostile_decisions(call, text, number)
    _make_hostile_peer_calls(session, run, text)
    _make_hostile_workflow(session, text)
    details = to_canonical_json({text: text, "call": [text]})
    AuditEvent.objects.create(
        workspace=session.workspace,
        session=session,
        kind=AuditKind.RUN_STARTED,
        actor_kind=ActorKind.TOKEN,
        actor=column[:255],
        details=details,
    )
    return session


def make_hostile_messages(session: Session, text: str) -> None:
    blocks: list[dict[str, Any]] = [
        {"kind": "text", "text": text},
        {"kind": "text", "text": f"```{text}\n{text}\n```\n![{text}](http://x.example/{text}) `{text}`"},
        {"kind": "reasoning", "text": text},
        {"kind": "image", "url": text, "alt": text},
        {"kind": "image", "url": f"http://x.example/{text}", "alt": text},
        {"kind": "image", "url": "data:image/png;base64,AAAA", "alt": text},
        {"kind": text, text: text},
        {"kind": "tool_call", "id": text, "name": text, "args": {text: text}},
        {"kind": "tool_call", "id": "second", "name": text, "args": text},
    ]
    make_message(session=session, body={"id": stored(text), "role": stored(text)[:32], text: text, "blocks": blocks})
    answer = [text, {"kind": "image", "url": text}, {"kind": "text", "text": to_canonical_json([text])}]
    make_message(session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "second", "content": answer}])
    make_message(session=session, blocks=[{"kind": "tool_result", "call_id": f"{text}!", "content": text}])


def make_hostile_calls(run: Run, text: str) -> Iterable[ToolCall]:
    """Create calls: interrupted, awaiting approval, and settled; with and without a sentence of the tool."""
    column, now = stored(text), clock.now()
    common_fields: dict[str, Any] = {
        "session": run.session,
        "run": run,
        "tool": column[:200],
        "args": {text: text, f"{text}2": [text, {text: 1}]},
        "error_type": column[:200],
        "error_message": column,
        "side_effects": column[:200],
        "verify_requested_by": "",
    }
    interrupted_fields: dict[str, Any] = {"interrupted_at": now, "issued_at": now}
    for number, sentence in enumerate((column, "")):
        yield make_call(call_id=column[:250] + str(number), sentence=sentence, **common_fields, **interrupted_fields)
    waiting_fields: dict[str, Any] = {"status": CallStatus.AWAITING_APPROVAL, "decide_within": timedelta(hours=1)}
    yield make_call(call_id=f"{column[:250]}b", **common_fields, **waiting_fields)
    yield make_call(call_id=f"{column[:250]}c", **common_fields, status=CallStatus.COMPLETED, result=text)


def _make_hostile_decisions(call: ToolCall, text: str, number: int) -> None:
    kinds = [DecisionKind.PROBE_UNKNOWN, DecisionKind.CONFIRM_LANDED]
    make_late_result(call=call, result=text)
    evidence: dict[str, Any] = {"link": f"http://x.example/{text}", "text": text, text: text}
    if number == 0:
        file = evidence_files.delete_orphans_and_store_evidence_file(
            call, SimpleUploadedFile("seen.txt", stored(text).encode()), given_by="dave"
        )
        file.name = stored(text)[:200]
        file.save()
        evidence["file"] = evidence_files.build_evidence_reference(file)
    decision = make_decision(
        call=call,
        kind=kinds[call.status == CallStatus.COMPLETED],
        actor=stored(text)[:255],
        actor_kind=ActorKind.HOOK,
        reason=stored(text),
        result=text,
        evidence=to_canonical_json(evidence),
    )
    bulk, _is_new = BulkDecision.objects.get_or_create(workspace=call.workspace, author=stored(text)[:150])
    BulkDecisionEntry.objects.create(decision=decision, bulk=bulk)


def _make_hostile_peer_calls(session: Session, run: Run, text: str) -> None:
    column = stored(text)
    task = PausedTask.objects.create(
        session=session, number=1, run=run, version=1, state=to_canonical_json({text: text})
    )
    join = Join.objects.create(session=session, task=task, join_id=column[:255], total=1)
    deadline = datetime(2027, 1, 1, tzinfo=UTC)
    for status, call_id in (("waiting", "1"), ("answered", "2")):
        PeerCall.objects.create(
            workspace=session.workspace,
            session=session,
            join=join,
            call_id=column[:250] + call_id,
            peer=column[:255],
            request=to_canonical_json({text: text}),
            status=status,
            deadline=deadline,
            result=to_canonical_json({text: text}),
            late_result=to_canonical_json(text),
            late_at=deadline,
        )


def _make_hostile_workflow(session: Session, text: str) -> None:
    column = stored(text)
    workflow = Workflow.objects.create(session=session, workflow_id=column[:255])
    WorkflowStep.objects.create(
        session=session,
        workflow=workflow,
        step_id=column[:255],
        position=0,
        function=column[:200],
        version=column[:255],
        args_digest="d",
        call_id=f"{column[:250]}c",
        idempotency_key="k",
        schema_version=1,
    )


def list_pages_of_session(session: Session) -> list[str]:
    """List every path that shows something of a session to an approver."""
    base, calls = f"/sessions/{session.pk}/", session.tool_calls.order_by("pk")
    subpaths = (
        "",
        "?v=1",
        "?find=a&at=0",
        "messages/0/",
        "messages/0/?as=text",
        "messages/1/",
        "messages/2/",
        "versions/",
        "compare/?a=1&b=2",
        "calls/",
        "timeline/",
        "workflows/",
        "peers/",
        "plan/",
        "history/",
        "fork/",
    )
    paths = [f"{base}{part}" for part in subpaths]
    paths += [f"{base}calls/{call.pk}/{query}" for call in calls for query in ("", "?as=call", "?as=arguments")]
    paths += [f"/review/calls/{call.pk}/" for call in calls]
    paths += [f"/review/bulk/{bulk.pk}/" for bulk in BulkDecision.objects.filter(workspace=session.workspace)]
    paths += [f"/review/?tab={tab}&sort=risk" for tab in ("interrupted", "awaiting", "decided")]
    paths += ["/sessions/", "/sessions/?sort=cost", "/calls/", "/overview/", "/audit/"]
    paths += [f"/sessions/?q={word}" for word in ("plan", "evil", "a")]
    return paths
