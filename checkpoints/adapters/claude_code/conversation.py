"""One conversation of Claude Code on its way into a session.

A message of the agent is spread over several lines, one for each block; here it becomes one again. A prompt that goes
on from an earlier message is an edit, and a compaction begins anew: both leave what was said before in earlier
versions.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from decimal import Decimal
from typing import Any, Final

from checkpoints.adapters.claude_code import lines
from checkpoints.adapters.claude_code.facts import Facts
from checkpoints.adapters.claude_code.lines import Line
from checkpoints.adapters.importing.recorder import Recorder
from checkpoints.adapters.importing.said import START, Said, moment
from checkpoints.serde.canonical import canonical

FORMAT: Final = "claude-code"
#: Characters of notes that are kept with one message, and at the end of a transcript with its session.
_NOTES_WITH_MESSAGE = 1_000_000
_NOTES_WITH_SESSION = 16_000
#: Messages whose usage may still grow.
_COUNTED = 256


class Conversation:
    """Takes the lines of one conversation in order."""

    def __init__(self, recorder: Recorder, facts: Facts) -> None:
        self._recorder, self._facts = recorder, facts
        self._seen: dict[str, str] = {}
        self._group: list[tuple[str, Line]] = []
        self._notes: list[Line] = []
        self._notes_size = 0
        self._homes: dict[str, str] = {}
        self._counted: OrderedDict[str, tuple[Counter[str], Decimal]] = OrderedDict()
        self._compacted = False
        self._tail = _tail(recorder.last_body())

    def take(self, line: Line) -> None:
        """The next line of the file."""
        key = self._new_key(line)
        if key is None:
            self._recorder.report.repeated += 1
            return
        self._recorder.report.unknown.update(lines.unknown(line))
        self._facts.learn(line)
        if lines.is_note(line):
            self._note(key, line)
            return
        if not self._belongs_to_group(line):
            self._end_message()
        if lines.kind(line) == "assistant" and lines.message(line) is not None:
            self._group.append((key, line))
        elif (said := lines.message(line)) is not None:
            self._say_user(key, line, said)
        else:
            self._say_other(key, line)

    def _new_key(self, line: Line) -> str | None:
        """The key of a line; None where the same line has been there. The same uuid with other content is another."""
        key, print_ = lines.key(line), lines.fingerprint(line)[:16]
        if key in self._seen and self._seen[key] != print_:
            key = f"{key}#{print_}"
        if key in self._seen:
            return None
        self._seen[key] = print_
        return key

    def _note(self, key: str, line: Line) -> None:
        self._notes.append(line)
        self._notes_size += len(canonical(line))
        if self._notes_size > _NOTES_WITH_MESSAGE:
            self._end_message()
            self._say_notes(f"notes:{key}"[:255])

    def _say_notes(self, key: str) -> None:
        """Notes that are too many to go along with a message are one of their own."""
        text = f"{len(self._notes)} notes of the program to itself are kept with this message."
        self._say(Said(key, "system", {"role": "system", "content": text}), [])

    # messages of the agent

    def _belongs_to_group(self, line: Line) -> bool:
        said = lines.message(line)
        if not self._group or said is None or lines.kind(line) != "assistant":
            return False
        before = self._group[-1][1]["message"]
        return isinstance(said.get("id"), str) and said["id"] == before.get("id")

    def _end_message(self) -> None:
        """Say the message that the lines of the group make up.

        Where an earlier import ended in the middle of it, what it wrote stays, and the rest becomes a message of its
        own: a transcript is never rewritten by an import.
        """
        group, self._group = self._group, []
        while group:
            size = self._extent(group)
            self._say_agent(group[:size])
            group = group[size:]

    def _extent(self, group: list[tuple[str, Line]]) -> int:
        """How many lines belong to the message that begins the group."""
        first = group[0][0]
        if self._tail is not None and self._tail[0] == first:
            return min(self._tail[1], len(group))
        following = (number for number, (key, _) in enumerate(group) if number and self._recorder.knows(key))
        return next(following, len(group))

    def _say_agent(self, group: list[tuple[str, Line]]) -> None:
        key, first = group[0]
        for other, _ in group[1:]:
            self._homes[other] = key
        messages = [line["message"] for _, line in group]
        for _, line in group:
            self._count(line)
        content = messages[0].get("content")
        if len(messages) > 1:
            content = [block for said in messages for block in lines.blocks(said.get("content"))]
        body = {"role": lines.text(messages[0].get("role")) or "assistant", "content": content}
        at = moment(group[-1][1].get("timestamp"))  # complete with its last line, and its calls begin then
        self._say(Said(key, lines.role(first, messages[0]), body, at), [line for _, line in group])

    def _count(self, line: Line) -> None:
        """Each line of a message repeats its usage, the last one in full: a message counts once."""
        said = line["message"]
        name = lines.text(said.get("id")) or lines.key(line)
        before, cost_before = self._counted.pop(name, (Counter(), Decimal()))
        cost = max(cost_before, _cost(line.get("costUSD")))
        now = Counter({kind: max(before[kind], count) for kind, count in lines.tokens(said).items()})
        for kind in before.keys() - now.keys():
            now[kind] = before[kind]
        totals = self._recorder.totals
        totals.cost += cost - cost_before
        totals.tokens.update({kind: count - before[kind] for kind, count in now.items()})
        self._counted[name] = now, cost
        if len(self._counted) > _COUNTED:
            self._counted.popitem(last=False)

    # everything else

    def _say_user(self, key: str, line: Line, said: dict[str, Any]) -> None:
        role = lines.role(line, said)
        after = None
        if line.get("isCompactSummary"):
            after = None if self._compacted else START
        elif role == "user":
            after = self._edited(line)
        body = {"role": lines.text(said.get("role")) or "user", "content": said.get("content")}
        spoken = role == "user" and bool(lines.prompt(said.get("content")) or lines.command(said.get("content")))
        self._say(Said(key, role, body, moment(line.get("timestamp")), after, begins_turn=spoken), [line])
        self._compacted = False

    def _say_other(self, key: str, line: Line) -> None:
        shown, place = lines.divided(line)
        kind = lines.kind(line)
        text = shown.get("content")
        content: Any = [shown]
        if kind == "system" and isinstance(text, str) and text:
            rest = {name: value for name, value in shown.items() if name not in {"content", "type", "subtype", "level"}}
            content = [{"type": "text", "text": text}, *([rest] if rest else [])]
            place = {**place, **{name: shown[name] for name in ("type", "subtype", "level") if name in shown}}
        self._compacted = lines.is_compaction(line)
        role = kind if kind not in {"", "attachment", "user", "assistant"} else "system"
        after = START if self._compacted else None
        self._say(Said(key, role, {"role": role, "content": content}, moment(line.get("timestamp")), after), [place])

    def _edited(self, line: Line) -> str | None:
        """Where a prompt goes on from, where that is not the end: what a person said after it has been taken back.

        Results that stand directly behind that message belong to it.
        """
        parent = line.get("parentUuid")
        place = self._recorder.place(self._homes.get(parent, parent)) if isinstance(parent, str) else None
        if place is None:
            return None
        path = self._recorder.path
        while place + 1 < len(path) and path[place + 1].role == "tool":
            place += 1
        left = path[place + 1 :]
        return path[place].key if any(passed.role in {"user", "assistant"} for passed in left) else None

    def _say(self, said: Said, told: list[Line]) -> None:
        source: dict[str, Any] = {"format": FORMAT, "lines": [lines.envelope(line) for line in told]}
        if self._notes:
            source["before"] = self._notes
            self._notes, self._notes_size = [], 0
        body = {"id": said.key, **said.body, "source": source}
        if said.at is not None:
            body["created_at"] = said.at.isoformat()
        self._recorder.say(Said(said.key, said.role, body, said.at, said.after, said.begins_turn))

    def flush(self) -> None:
        """Write what is complete."""
        self._recorder.flush()

    def close(self) -> None:
        """The file has ended."""
        self._end_message()
        if self._notes_size > _NOTES_WITH_SESSION:
            self._say_notes(f"notes:{lines.key(self._notes[0])}"[:255])
        self._facts.describe(self._recorder.origin, self._seen, trailing=self._notes)
        self._recorder.close()


def _tail(body: Any) -> tuple[str, int] | None:
    """The message an earlier import ended with, and how many lines it was made of."""
    source = body.get("source") if isinstance(body, dict) else None
    if not isinstance(source, dict) or not isinstance(source.get("lines"), list):
        return None
    return str(body.get("id", "")), max(1, len(source["lines"]))


def _cost(value: Any) -> Decimal:
    """An amount in US dollars."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**6:
        return Decimal()
    return Decimal(str(value))
