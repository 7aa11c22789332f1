"""Sentences about calls."""

import pytest
from django.utils import translation

from checkpoints.formats import to_canonical_json
from checkpoints.models import ToolCall
from harness_site.core import call_sentences

_PATCH = (
    "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** Delete File: c.py\n"
    "*** End Patch"
)


@pytest.mark.parametrize(
    ("tool", "args", "sentence"),
    [
        ("refund_card", {"order": 17, "amount": "40.00"}, "Refund card: order 17, amount 40.00"),
        ("refund_card", {"amount": 39.0, "weight": 39.0}, "Refund card: amount 39.00, weight 39.0"),
        ("refund_card", {"price": "-7.5", "amount": {"price": 39.0}}, "Refund card: price -7.50, amount (price 39.00)"),
        ("pay", {"invoice": 8841, "amount": "26523.0"}, "Pay: invoice 8841, amount 26,523.00"),
        ("git.delete", {"branches": ["a", "b"], "force": True}, "Git delete: branches (a, b), force yes"),
        ("tag", {"tag": "vip", "customers": ["a"] * 100}, "Tag: tag vip, customers (100 entries)"),
        ("run", {"env_vars": {"A": 1, "B": 2}, "steps": []}, "Run: env vars (A 1, B 2), steps (none)"),
        (
            "mail",
            {"to": ["ann@example.com", "bob@example.com", "carol@example.com", "dan@example.com"]},
            "Mail: to (ann@example.com, bob@example.com, carol@example.com and 1 more)",
        ),
        ("mail", {"cc": ["ann@example.com"] * 20}, f"Mail: cc ({', '.join(['ann@example.com'] * 3)} and 17 more)"),
        ("tag", {"labels": {"team": "o" * 50, "paid": True}}, f"Tag: labels (team {'o' * 50}, paid yes)"),
        ("open", {"links": ["o" * 60, "p" * 60, "q"]}, f"Open: links ({'o' * 60}, {'p' * 60} and 1 more)"),
        ("tag", {"labels": {"team": "ops", "place": {"city": "Bonn"}}}, "Tag: labels (2 fields)"),
        ("login", {"account": {"user": "ann", "password": "hunter22"}}, "Login: account (user ann, password ‹masked›)"),
        ("run", {"rows": [{}]}, "Run: rows (1 entry)"),
        ("TodoWrite", {}, "TodoWrite, without arguments"),
        ("ping", {}, "Ping, without arguments"),
        ("", {"a": None}, "Unnamed tool: a –"),
        ("many", dict.fromkeys("abcdefgh", 1), "Many: a 1, b 1, c 1, d 1, e 1, f 1, and 2 more"),
        ("long", {"text": "word " * 40}, f"Long: text {('word ' * 12)[:59]}…"),
        ("post", {"body": "word " * 40, "to": "blog"}, f"Post: to blog, body {('word ' * 12)[:59]}…"),
        ("broken", "not json", "Broken: not json"),
        ("shell", {"command": ["bash", "-lc", "git status -sb"], "workdir": "."}, "Shell: git status -sb, workdir ."),
        ("shell", {"command": ["git", "commit", "-m", "a b"]}, "Shell: git commit -m 'a b'"),
        ("shell", {"command": [1, 2, 3]}, "Shell: command (1, 2, 3)"),
        ("deploy", {"host": "a", "command": ["x", "y"]}, "Deploy: host a, command (x, y)"),
        ("hidden", {"to": "a\u202eb\x00"}, "Hidden: to a‹U+202E›b␀"),
    ],
)
def test_call_sentence(tool: str, args: object, sentence: str) -> None:
    assert call_sentences.build_default_call_sentence(tool, args) == sentence


@pytest.mark.parametrize(
    ("sentence", "args", "shown"),
    [
        ("Refund 39.0 EUR, 39.0 in all", {"amount": 39.0}, "Refund 39.00 EUR, 39.00 in all"),
        ("Refund 139.0 EUR of 39.05, v1.39.0", {"amount": 39.0}, "Refund 139.0 EUR of 39.05, v1.39.0"),
        ("Refund €39.5.", {"total_price": "39.5"}, "Refund €39.50."),
        ("Refund 39.125 EUR", {"amount": 39.125}, "Refund 39.125 EUR"),
        ("Refund 39 EUR", {"amount": 39}, "Refund 39 EUR"),
        ("Weigh 39.0 g", {"weight": 39.0}, "Weigh 39.0 g"),
        ("Pay 26523.00 EUR", {"amount": "26523.00"}, "Pay 26,523.00 EUR"),
        ("Wire 18,400.00 EUR", {"amount": "18,400.00"}, "Wire 18,400.00 EUR"),
        ("Pay 1980 EUR", {"amount": 1980}, "Pay 1,980 EUR"),
        ("Pay 1980 EUR for order 1980", {"amount": 1980}, "Pay 1,980 EUR for order 1980"),
        ("Pay €1980 for order 1980", {"amount": 1980}, "Pay €1,980 for order 1980"),
        ("Pay order 1980", {"amount": 1980}, "Pay order 1980"),
        ("Pay €1980.5 to Ann", {"amount": "€1980.5"}, "Pay €1,980.50 to Ann"),
        ("Pay many", {"amount": "many"}, "Pay many"),
    ],
)
def test_amount_in_the_sentence_of_a_tool_has_separators_and_cents(sentence: str, args: object, shown: str) -> None:
    assert call_sentences.build_masked_call_sentence("refund_card", sentence, args) == shown


def test_amount_in_a_sentence_has_the_separators_of_the_reader() -> None:
    with translation.override("de"):
        sentence = call_sentences.build_masked_call_sentence("pay", "Pay 26523.0 EUR", {"amount": 26523.0})
    assert sentence == "Pay 26.523,00 EUR"


def test_amount_with_separators_counts_as_said_in_a_sentence() -> None:
    args = {"amount": 1039.0, "order": 17}
    sentence = call_sentences.build_masked_call_sentence("refund_card", "Refund 1039.0 EUR", args)
    assert call_sentences.describe_arguments_not_in_sentence(args, ["amount", "order"], sentence) == "order: 17"


def test_long_value_that_a_sentence_says_is_not_described_again() -> None:
    command = "systemctl restart queue-worker &&  sleep 5 && queuectl stats mails && echo done"
    args = {"command": command, "host": "worker-2"}
    for sentence in (f"Run “{command}” on the host", f"Run “{command[:70]}…”"):
        described = call_sentences.describe_arguments_not_in_sentence(args, ["command", "host"], sentence)
        assert described == "host: worker-2"
    described = call_sentences.describe_arguments_not_in_sentence(
        args, ["command"], "Run “systemctl restart queue-worker”"
    )
    assert described == "command: systemctl restart queue-worker && sleep 5 && queuectl stats…"


def test_each_value_of_an_argument_is_a_piece() -> None:
    args = {"order": 17, "urgent": True, "plan": {"a": 1, "b": 2}, "tags": ["new"], "note": None}
    pieces = call_sentences.list_masked_default_sentence_pieces("refund", args)
    assert "".join(text for text, _ in pieces) == "Refund: order 17, urgent yes, plan (a 1, b 2), tags (new), note –"
    assert [text for text, is_value in pieces if is_value] == ["17", "yes", "(a 1, b 2)", "(new)", "–"]


@pytest.mark.parametrize(
    ("tool", "args", "sentence"),
    [
        ("Write", {"file_path": "report.md", "content": "# Sales\n| a | b |\n|---|---|"}, "Write report.md"),
        ("read_file", {"path": "src/app.py", "limit": 20}, "Read file src/app.py"),
        (
            "MultiEdit",
            {"file_path": "/srv/" + "deep/" * 20 + "app.py", "edits": []},
            f"MultiEdit …/{'deep/' * 10}app.py",
        ),
        ("Write", {"content": "no file is named"}, "Write: content no file is named"),
        ("Write", {"file_path": 7}, "Write: file path 7"),
        ("upload", {"path": "a.txt", "public": True}, "Upload: path a.txt, public yes"),
        ("refund_card", {"order": 17, "amount": "40.00"}, "Refund card: order 17, amount 40.00"),
        ("note", {"title": "Sales", "text": "# Q2\n\n| a | b |"}, "Note: title Sales, and 1 more"),
        ("note", {"text": "# **Q2**\n\n| a | b |\n|---|---|\n", "to": "ann"}, "Note: text Q2 …, to ann"),
        ("run_query", {"sql": "select a,\n  b from c"}, "Run query: sql select a, b from c"),
        ("mail", {"to": "ann", "text": "word " * 40, "copy": ["a"]}, "Mail: to ann, copy (a), and 1 more"),
        (
            "shell",
            {"command": ["bash", "-lc", "git status -sb"], "workdir": ".", "timeout_ms": 120000},
            "Shell: git status -sb",
        ),
        ("Bash", {"command": "rg a |\n  head", "description": "Look for a"}, "Bash: rg a | head"),
        ("exec", {"cmd": "word " * 40}, f"Exec: {('word ' * 40)[:159]}…"),
        ("deploy", {"command": "rollback", "replicas": 6}, "Deploy: rollback, replicas 6"),
        ("Bash", {"command": "cd /srv/app && make lint"}, "Bash: make lint"),
        ("Bash", {"command": "cd '/srv/my app'; make"}, "Bash: make"),
        ("Bash", {"command": "cd /srv/app"}, "Bash: cd /srv/app"),
        ("Bash", {"command": 'cd "$(git root)" && make'}, 'Bash: cd "$(git root)" && make'),
        ("Bash", {"command": "cat > a.md <<'EOF'\n# Title\nText\nEOF"}, "Bash: cat > a.md <<'EOF' …"),
        (
            "Bash",
            {"command": "diff '/srv/shop/apps/labs/src/(main)/teams/[id]/route.ts' b/c.ts"},
            "Bash: diff '…/labs/src/(main)/teams/[id]/route.ts' b/c.ts",
        ),
        (
            "fetch",
            {"command": f"curl https://example.org/{'deep/' * 12}a.json"},
            f"Fetch: curl https://example.org/{'deep/' * 12}a.json",
        ),
        (
            "shell",
            {"command": ["bash", "-lc", f"apply_patch <<'P'\n{_PATCH}\nP"]},
            "Shell: apply_patch src/a.py, b.py, and 1 more",
        ),
        ("rm", {"command": "rm -r build\n"}, "rm -r build"),
        ("edit", {"command": "edit 3:4\nlamp = on\nend_of_edit"}, "edit 3:4 …"),
        ("apply_patch", {"input": _PATCH}, "Apply patch: src/a.py, b.py, and 1 more"),
        ("mcp__tracker_prod__create_issue", {"title": "Lamp"}, "Create issue: title Lamp"),
        ("ping", {}, "Ping, without arguments"),
        ("broken", "not json", "Broken: not json"),
    ],
)
def test_sentence_of_a_list_has_the_file_or_the_short_arguments(tool: str, args: object, sentence: str) -> None:
    assert call_sentences.build_short_call_sentence(tool, args) == sentence


def test_command_in_a_list_is_masked() -> None:
    args = {"command": ["bash", "-lc", "curl -H 'Authorization: Bearer sk-ant-hunter2hunter2' a.example"]}
    sentence = call_sentences.build_short_call_sentence("shell", args)
    assert sentence.startswith("Shell: curl -H 'Authorization:")
    assert "hunter2" not in sentence


def test_secret_in_the_middle_of_a_shortened_path_is_masked() -> None:
    args = {"command": f"cd /srv/password=hunter2-hunter2/a && cat /srv/token/{'deep/' * 9}password=hunter2-hunter2/b"}
    call = ToolCall(tool="Bash", args=to_canonical_json(args))
    summary = call_sentences.summarize_call(call, is_beside_tool_name=True)
    assert summary.sentence.startswith("cat …/deep/")
    assert "hunter2" not in " ".join((summary.sentence, summary.whole, summary.folder, summary.whole_folder))


def test_sentence_of_a_list_masks_secrets() -> None:
    args = {"file_path": "password=hunter2-hunter2", "content": "x"}
    assert "hunter2" not in call_sentences.build_short_call_sentence("Write", args)
