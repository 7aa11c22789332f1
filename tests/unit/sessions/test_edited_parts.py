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


def test_parts_that_only_one_message_has_are_named() -> None:
    text = TextPart("No refund.")
    old, new = CallPart("c1", "refund", {"order": 1}), CallPart("c1", "refund", {"order": 2})
    sent = CallPart("c2", "send", {})
    edited = compare_parts((text, old), (new, sent), StepBudget(10_000))
    assert [(each.part, each.only_in) for each in edited] == [(text, "old"), (new, ""), (sent, "new")]
    assert edited[0].pieces == (DiffPiece("del", "No refund."),)
    assert [field.pieces for field in edited[1].fields] == [(DiffPiece("del", "1"), DiffPiece("ins", "2"))]
    assert (edited[2].fields, edited[2].pieces, edited[2].has_differences) == ((), (), True)
    removed, _added = compare_parts((old,), (sent,), StepBudget(10_000))
    assert [field.pieces for field in removed.fields] == [(DiffPiece("del", "1"),)]


def test_messages_of_very_many_parts_are_not_compared_part_by_part() -> None:
    text = TextPart("a")
    assert compare_parts((text,) * 1000, (text,) * 1000, StepBudget(10_000)) == ()
    assert compare(text, text).is_same
    assert compare(TextPart("No refund."), TextPart("A refund.")).pieces[0] == DiffPiece("del", "No")
