from checkpoints.formats.parse_message_parts import CallPart, Part, ResultPart, TextPart
from harness_site.core.word_diff import DiffPiece, StepBudget
from harness_site.sessions.compare.message_part_differences import EditedPart, compare_parts


def compare(old: Part, new: Part) -> EditedPart:
    (edited,) = compare_parts((old,), (new,), StepBudget(10_000))
    return edited


def test_arguments_are_compared_field_by_field() -> None:
    old = CallPart("c1", "refund", {"order": 1, "currency": "EUR", "note": "late"})
    edited = compare(old, CallPart("c2", "refund", {"currency": "EUR", "order": 2}))
    assert [(field.name, field.pieces) for field in edited.fields] == [
        ("currency", (DiffPiece("same", "EUR"),)),
        ("order", (DiffPiece("del", "1"), DiffPiece("ins", "2"))),
        ("note", (DiffPiece("del", "late"),)),
    ]


def test_json_results_are_compared_field_by_field() -> None:
    old, new = (ResultPart("c1", (TextPart(f'{{"order": {number}}}'),)) for number in (1, 2))
    assert [field.name for field in compare(old, new).fields] == ["order"]
    assert not compare(old, ResultPart("c1", (TextPart("none"),))).fields


def test_commands_are_compared_without_their_shell() -> None:
    old, new = (CallPart("c1", "shell", {"command": ["bash", "-lc", f"git {verb}"]}) for verb in ("add", "push"))
    edited = compare(old, new)
    assert edited.is_command
    assert edited.pieces == (DiffPiece("same", "git"), DiffPiece("del", " add"), DiffPiece("ins", " push"))


def test_other_arguments_of_a_command_are_compared_field_by_field() -> None:
    old = CallPart("c1", "Bash", {"command": "make", "input": "y", "timeout": 1})
    edited = compare(old, CallPart("c2", "Bash", {"command": "make", "input": "n", "timeout": 1}))
    assert edited.is_command
    assert edited.pieces == (DiffPiece("same", "make"),)
    assert [(field.name, field.pieces) for field in edited.fields] == [
        ("input", (DiffPiece("del", "y"), DiffPiece("ins", "n"))),
        ("timeout", (DiffPiece("same", "1"),)),
    ]
    assert not compare(old, CallPart("c1", "Bash", {**old.args, "command": "make all"})).fields


def test_messages_with_other_parts_are_not_compared_part_by_part() -> None:
    call, text = CallPart("c1", "refund", {}), TextPart("No refund.")
    assert compare_parts((call,), (text,), StepBudget(10_000)) == ()
    assert compare_parts((call,), (CallPart("c1", "send", {}),), StepBudget(10_000)) == ()
    assert compare(text, text).is_same
    assert compare(text, TextPart("A refund.")).pieces[0] == DiffPiece("del", "No")
