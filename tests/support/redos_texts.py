"""Hostile texts by name: functions that build each of them in about any size.

The repeated pieces are those that slow down backtracking patterns, parsers of nested structures, terminals and
browsers. Nothing is random, so that a failure can be repeated by its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

Maker: TypeAlias = Callable[[int], str]


def repeated(piece: str, *, before: str = "", after: str = "") -> Maker:
    """Build a function that repeats `piece` up to about the requested number of characters."""

    def make(size: int) -> str:
        return before + piece * max(1, (size - len(before) - len(after)) // len(piece)) + after

    return make


def _counted(piece: str) -> Maker:
    """Build a function that makes lines of `piece`, each with another number for `{}`."""

    def make(size: int) -> str:
        count = max(1, size // (len(piece) + 4))
        return "".join(piece.replace("{}", str(number)) for number in range(count))

    return make


def _nested(opening: str, closing: str = "", middle: str = "") -> Maker:
    def make(size: int) -> str:
        depth = max(1, (size - len(middle)) // (len(opening) + len(closing)))
        return opening * depth + middle + closing * depth

    return make


def _rows_and_columns(size: int) -> str:
    """Build a Markdown table with many columns in its head and many short rows."""
    half = size // 2
    return f"|{'a|' * (half // 4)}\n|{'-|' * (half // 4)}\n" + "|\n" * (half // 2)


def _backtick_runs(size: int) -> str:
    """Build runs of backticks, all of different lengths."""
    parts, length, number = [], 0, 1
    while length < size:
        parts.append("`" * number + " ")
        length += number + 1
        number += 1
    return "".join(parts)


#: Against patterns that detect secrets and names.
SECRETS: Final[dict[str, Maker]] = {
    "token beginnings": repeated("eyJ-"),
    "token beginnings with dots": repeated("eyJaaaaaaaa."),
    "token halves": repeated("eyJaaaaaaaa.aaaa"),
    "one long token": repeated("a", before="eyJ"),
    "private key beginnings": repeated("-----BEGIN PRIVATE KEY-----"),
    "private key words": repeated("PRIVATE KEY ", before="-----BEGIN "),
    "private key letters": repeated("A", before="-----BEGIN "),
    "key prefixes": repeated("sk-"),
    "key prefixes with words": repeated("sk_live_"),
    "hub prefixes": repeated("ghp_"),
    "slack prefixes": repeated("xoxb-"),
    "digits": repeated("1"),
    "digits and blanks": repeated("4 "),
    "digits and dashes": repeated("4111-1111-"),
    "signs": repeated("="),
    "signs and letters": repeated("a="),
    "names and signs": repeated("token="),
    "names and blanks": repeated(" ", before="password"),
    "names and open quotes": repeated('a:"'),
    "names and either quote": repeated("a:\"b:'"),
    "secret names and open quotes": repeated("password:'a"),
    "escaped quotes": repeated('a:\\"b'),
    "deeply escaped quotes": repeated('\\"a\\\\":\\\\\\"'),
    "backslashes": repeated("\\"),
    "backslashes in a quoted value": repeated("\\", before='token:"'),
    "quotes": repeated('"'),
    "quotes before a sign": repeated('"', after="a:b"),
    "one long name": repeated("a", after="=b"),
    "one long name without a sign": repeated("a.b-"),
    "a long secret name": repeated("password_"),
    "addresses with names": repeated("://a:"),
    "addresses without a host": repeated("://a:b"),
    "long address names": repeated("a", before="://"),
    "bearers": repeated("Bearer "),
    "blanks": repeated(" "),
    "tabs and line breaks": repeated("\t\n"),
    "query pairs": repeated("a=b&"),
    "percent signs": repeated("%3D%26"),
    "command options": repeated("--password "),
    "header objects": repeated('{"name":"Authorization","value":"x"},'),
}

#: Against terminal sequences and the display of invisible characters.
CONTROLS: Final[dict[str, Maker]] = {
    "colour parameters": repeated("1;", before="\x1b[", after="1m"),
    "colour separators": repeated(";", before="\x1b[", after="m"),
    "wide colour parameters": repeated("38;5;", before="\x1b[", after="1m"),
    "one long colour number": repeated("1", before="\x1b[", after="m"),
    "open colours": repeated("\x1b[1;1"),
    "colours": repeated("\x1b[1mx\x1b[31my"),
    "empty colours": repeated("\x1b[m"),
    "colours and lines": repeated("\x1b[1mx\n"),
    "escapes": repeated("\x1b"),
    "zero bytes": repeated("\x00"),
    "kept times": repeated("\x02ago "),
    "whole kept times": repeated("\x02ago x\x02"),
    "direction marks": repeated("\u202e\u2066"),
    "high surrogates": repeated("\ud800 "),
    "low surrogates": repeated("\udfff "),
    "line breaks": repeated("\n"),
    "returns": repeated("\r\n"),
    "combining marks": repeated("\u0300", before="a"),
    "letters outside the first plane": repeated("\U0001f600"),
    "letters that grow in lower case": repeated("\u0130"),
    "hangul": repeated("\uac00"),
    "no spaces": repeated("a"),
    "words": repeated("lorem ipsum "),
    "entities": repeated("&amp;"),
    "tags": repeated("<b>"),
    "open tags": repeated("<a "),
    "open tags with quotes": repeated("<a b='"),
    "comments": repeated("<!--"),
    "process names": repeated("<a: "),
}

#: Against parsers of Markdown.
MARKDOWN: Final[dict[str, Maker]] = {
    "schemes": repeated("a://"),
    "web schemes": repeated("http://"),
    "addresses": repeated("http://a.b "),
    "address full of brackets": repeated("(", before="http://a"),
    "address full of dots": repeated(".", before="http://a"),
    "address full of stops": repeated("a.!", before="http://"),
    "addresses without blanks": repeated("http://a.b/(x),"),
    "colons": repeated(":"),
    "letters and colons": repeated("a:"),
    "e-mail signs": repeated("a@"),
    "open brackets": repeated("["),
    "open images": repeated("!["),
    "brackets": repeated("[]"),
    "nested brackets": _nested("[", "]", "a"),
    "open links": repeated("[a]("),
    "open link titles": repeated('[a](b "'),
    "links": repeated("[a](b)"),
    "open link destinations": repeated("[a](<b"),
    "nested link brackets": repeated("(", before="[a](b"),
    "references": repeated("[a][b]"),
    "reference definitions": _counted("[a{}]: b\n"),
    "used reference definitions": _counted("[a{}]: b\n\n[a{}]\n"),
    "open reference titles": repeated("[a]: b '\n"),
    "stars": repeated("*"),
    "stars and letters": repeated("*a "),
    "stars around letters": repeated("a*b"),
    "star pairs": repeated("a**b"),
    "stars and lines": repeated("*a _b "),
    "mixed emphasis": repeated("**x* "),
    "underscores": repeated("_a"),
    "tildes": repeated("~~a"),
    "backticks": repeated("`"),
    "backtick runs": _backtick_runs,
    "backticks and letters": repeated("`a``b"),
    "quoted lines": repeated(">"),
    "quoted blanks": repeated("> "),
    "quotes on lines": repeated("> a\n>> b\n"),
    "list items": repeated("- "),
    "lists": repeated("- a\n"),
    "deep lists": repeated("* * a\n"),
    "numbered lists": repeated("1. a\n"),
    "growing lists": lambda size: "".join(f"{' ' * (2 * number)}- a\n" for number in range(int(size**0.5))),
    "tables": repeated("|a|b|\n", before="|a|b|\n|-|-|\n"),
    "wide tables": _rows_and_columns,
    "table heads": repeated("a|", after="\n-|-\n"),
    "bars": repeated("|"),
    "headings": repeated("# a\n"),
    "heading levels": repeated("#"),
    "underlined headings": repeated("a\n-\n"),
    "rules": repeated("---\n"),
    "rule characters": repeated("* "),
    "fences": repeated("```\n"),
    "fences of other languages": _counted("```a{}\nb\n```\n"),
    "fences inside quotes": repeated("> ```\n"),
    "escapes of punctuation": repeated("\\*"),
    "named entities": repeated("&lt;"),
    "open entities": repeated("&"),
    "numeric entities": repeated("&#x41;"),
    "angle brackets": repeated("<"),
    "angle addresses": repeated("<a:b"),
    "hard breaks": repeated("a  \n"),
    "blank lines with blanks": repeated("  \n"),
    "straight quotes": repeated("\"a' "),
    "dots and dashes": repeated("... -- (c) "),
}

#: Against syntax highlighting: pieces that many grammars scan ahead from.
CODE: Final[dict[str, Maker]] = {
    "code: strings": repeated('"a'),
    "code: raw strings": repeated('r"'),
    "code: triple quotes": repeated('"""a'),
    "code: comments": repeated("/*"),
    "code: line comments": repeated("// a\n"),
    "code: hashes": repeated("# a\n"),
    "code: braces": repeated("{"),
    "code: parentheses": repeated("("),
    "code: calls": repeated("a("),
    "code: arrows": repeated("a<b>"),
    "code: generics": repeated("A<A<"),
    "code: declarations": repeated("a b "),
    "code: functions": repeated("int a(b "),
    "code: dotted names": repeated("a.b"),
    "code: annotations": repeated("@a "),
    "code: prompts": repeated("$ a\n"),
    "code: prompts without lines": repeated("a@b:c$ "),
    "code: dollars": repeated("${"),
    "code: commands": repeated("$(a "),
    "code: backquotes": repeated("`a"),
    "code: here-documents": repeated("<<A\n"),
    "code: substitutions": repeated("s/a/"),
    "code: divisions": repeated("a/b"),
    "code: regular expressions": repeated("= /a"),
    "code: slashes": repeated("/"),
    "code: pluses": repeated("+"),
    "code: added lines": repeated("+a\n"),
    "code: diff heads": repeated("--- a\n+++ b\n@@ -1 +1 @@\n"),
    "code: tags": repeated("<a b=c>"),
    "code: open attributes": repeated("<a b='"),
    "code: scripts": repeated("<script>"),
    "code: styles": repeated("a{b:c;"),
    "code: keys": repeated("a: b\n"),
    "code: deep keys": repeated("- - a: "),
    "code: anchors": repeated("&a *a "),
    "code: sections": repeated("[a]\n"),
    "code: numbers": repeated("1e1"),
    "code: long numbers": repeated("1_000"),
    "code: quoted words": repeated("'a' "),
    "code: escaped quotes": repeated('\\"'),
    "code: words": repeated("select from where "),
    "code: keywords": repeated("class a extends b "),
    "code: imports": repeated("import a."),
    "code: packages": repeated("package a::"),
    "code: format strings": repeated('f"{a'),
    "code: spaces": repeated(" "),
    "code: lines with spaces": repeated(" \n"),
    "code: continued lines": repeated("a\\\n"),
    "code: equals": repeated("a=b "),
    "code: colons": repeated("a:"),
    "code: letters": repeated("a"),
    "code: sigils": repeated("$a@b%c"),
    "code: pod": repeated("=a\n"),
    "code: questions": repeated("a?b:"),
    "code: stars": repeated("*a "),
    "code: ampersands": repeated("a&&b||"),
}


def _numbers(size: int) -> str:
    return f"[{','.join('1' * (size // 2))}]"


#: Valid JSON texts against parsers, trees and everything that walks values.
JSON: Final[dict[str, Maker]] = {
    "nested lists": _nested("[", "]"),
    "nested objects": _nested('{"a":', "}", "1"),
    "many numbers": _numbers,
    "many empty lists": lambda size: f"[{','.join(['[]'] * (size // 3))}]",
    "many keys": lambda size: json.dumps({f"k{number}": 0 for number in range(max(1, size // 12))}),
    "many lists of texts": lambda size: json.dumps([["a"]] * max(1, size // 9)),
    "half deep lists": lambda size: json.dumps([json.loads("[" * 150 + "]" * 150)] * max(1, size // 302)),
    "one long text": lambda size: json.dumps("a" * size),
    "one long key": lambda size: json.dumps({"a" * size: 1}),
    "escapes in a text": lambda size: json.dumps('"' * (size // 2)),
    "json in json": lambda size: json.dumps(json.dumps(json.dumps({"a": "b" * max(1, size // 2)}))),
}

#: JSON texts of values that JSON cannot hold, or nested more deeply than is stored. Sizes do not matter.
UNREPRESENTABLE: Final[dict[str, str]] = {
    "an infinite number": '{"amount": 1e999}',
    "a negative infinite number": '{"amount": -1e999}',
    "a long infinite number": '{"amount": ' + "9" * 400 + ".0}",
    "a number of many digits": '{"amount": ' + "9" * 5000 + "}",
    "not a number": '{"amount": NaN}',
    "infinity by name": '{"amount": Infinity}',
    "201 levels": '{"a":' * 201 + "1" + "}" * 201,
    "400 levels of lists": "[" * 400 + "]" * 400,
    "900 levels": '{"a":' * 900 + "1" + "}" * 900,
    "990 levels": '{"a":' * 990 + "1" + "}" * 990,
    "20,000 levels": "[" * 20_000 + "]" * 20_000,
    "20,000 open levels": '{"a":' * 20_000,
}


def _deep(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


def _results_in_results(levels: int) -> dict[str, Any]:
    block: dict[str, Any] = {"kind": "text", "text": "bottom"}
    for level in range(levels):
        block = {"kind": "tool_result", "call_id": f"c{level}", "content": [block]}
    return block


#: Stored messages of the maximum depth and with many parts.
MESSAGES: Final[dict[str, dict[str, Any]]] = {
    "as deep as is stored": {"id": "deep", "role": "assistant", "blocks": [{"kind": "odd", "value": _deep(196)}]},
    "deep arguments": {
        "id": "deep-args",
        "role": "assistant",
        "blocks": [{"kind": "tool_call", "id": "d1", "name": "pay", "args": _deep(196)}],
    },
    "results in results": {"id": "nested", "role": "tool", "blocks": [_results_in_results(90)]},
    "many parts": {"id": "parts", "role": "user", "blocks": [{"kind": "text", "text": "x"}] * 3_000},
    "many calls of one id": {
        "id": "calls",
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "same", "function": {"name": "pay", "arguments": "{}"}}] * 2_000,
    },
    "halves of characters in arguments": {
        "id": "halves",
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "h", "function": {"name": "pay", "arguments": '{"a": "\\ud83d\udc00"}'}}],
    },
    "content of the wrong types": {"id": "odd", "role": "user", "content": {"type": ["x"], "text": 7}, "tool_calls": 7},
}

#: All texts, by name.
TEXTS: Final[dict[str, Maker]] = {**SECRETS, **CONTROLS, **MARKDOWN, **CODE, **JSON}
