"""Hostile texts by name: functions that build each of them in about any size.

The repeated pieces are those that slow down backtracking patterns, parsers of nested structures, terminals and
browsers. Nothing is random, so that a failure can be repeated by its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

Maker: TypeAlias = Callable[[int], str]


def make_repeater(piece: str, *, before: str = "", after: str = "") -> Maker:
    """Build a function that repeats `piece` up to about the requested number of characters."""

    def make(size: int) -> str:
        return before + piece * max(1, (size - len(before) - len(after)) // len(piece)) + after

    return make


def _make_numbered_lines_builder(piece: str) -> Maker:
    """Build a function that makes lines of `piece`, each with another number for `{}`."""

    def make(size: int) -> str:
        count = max(1, size // (len(piece) + 4))
        return "".join(piece.replace("{}", str(number)) for number in range(count))

    return make


def _make_nested_text_builder(opening: str, closing: str = "", middle: str = "") -> Maker:
    def make(size: int) -> str:
        depth = max(1, (size - len(middle)) // (len(opening) + len(closing)))
        return opening * depth + middle + closing * depth

    return make


def _build_wide_and_long_table(size: int) -> str:
    """Build a Markdown table with many columns in its head and many short rows."""
    half = size // 2
    return f"|{'a|' * (half // 4)}\n|{'-|' * (half // 4)}\n" + "|\n" * (half // 2)


def _build_backtick_runs(size: int) -> str:
    """Build runs of backticks, all of different lengths."""
    parts, length, number = [], 0, 1
    while length < size:
        parts.append("`" * number + " ")
        length += number + 1
        number += 1
    return "".join(parts)


#: Against patterns that detect secrets and names.
SECRETS: Final[dict[str, Maker]] = {
    "token beginnings": make_repeater("eyJ-"),
    "token beginnings with dots": make_repeater("eyJaaaaaaaa."),
    "token halves": make_repeater("eyJaaaaaaaa.aaaa"),
    "one long token": make_repeater("a", before="eyJ"),
    "private key beginnings": make_repeater("-----BEGIN PRIVATE KEY-----"),
    "private key words": make_repeater("PRIVATE KEY ", before="-----BEGIN "),
    "private key letters": make_repeater("A", before="-----BEGIN "),
    "key prefixes": make_repeater("sk-"),
    "key prefixes with words": make_repeater("sk_live_"),
    "hub prefixes": make_repeater("ghp_"),
    "slack prefixes": make_repeater("xoxb-"),
    "digits": make_repeater("1"),
    "digits and blanks": make_repeater("4 "),
    "digits and dashes": make_repeater("4111-1111-"),
    "signs": make_repeater("="),
    "signs and letters": make_repeater("a="),
    "names and signs": make_repeater("token="),
    "names and blanks": make_repeater(" ", before="password"),
    "names and open quotes": make_repeater('a:"'),
    "names and either quote": make_repeater("a:\"b:'"),
    "secret names and open quotes": make_repeater("password:'a"),
    "escaped quotes": make_repeater('a:\\"b'),
    "deeply escaped quotes": make_repeater('\\"a\\\\":\\\\\\"'),
    "backslashes": make_repeater("\\"),
    "backslashes in a quoted value": make_repeater("\\", before='token:"'),
    "quotes": make_repeater('"'),
    "quotes before a sign": make_repeater('"', after="a:b"),
    "one long name": make_repeater("a", after="=b"),
    "one long name without a sign": make_repeater("a.b-"),
    "a long secret name": make_repeater("password_"),
    "addresses with names": make_repeater("://a:"),
    "addresses without a host": make_repeater("://a:b"),
    "long address names": make_repeater("a", before="://"),
    "bearers": make_repeater("Bearer "),
    "blanks": make_repeater(" "),
    "tabs and line breaks": make_repeater("\t\n"),
    "query pairs": make_repeater("a=b&"),
    "percent signs": make_repeater("%3D%26"),
    "command options": make_repeater("--password "),
    "header objects": make_repeater('{"name":"Authorization","value":"x"},'),
}

#: Against terminal sequences and the display of invisible characters.
CONTROLS: Final[dict[str, Maker]] = {
    "colour parameters": make_repeater("1;", before="\x1b[", after="1m"),
    "colour separators": make_repeater(";", before="\x1b[", after="m"),
    "wide colour parameters": make_repeater("38;5;", before="\x1b[", after="1m"),
    "one long colour number": make_repeater("1", before="\x1b[", after="m"),
    "open colours": make_repeater("\x1b[1;1"),
    "colours": make_repeater("\x1b[1mx\x1b[31my"),
    "empty colours": make_repeater("\x1b[m"),
    "colours and lines": make_repeater("\x1b[1mx\n"),
    "escapes": make_repeater("\x1b"),
    "zero bytes": make_repeater("\x00"),
    "kept times": make_repeater("\x02ago "),
    "whole kept times": make_repeater("\x02ago x\x02"),
    "direction marks": make_repeater("\u202e\u2066"),
    "high surrogates": make_repeater("\ud800 "),
    "low surrogates": make_repeater("\udfff "),
    "line breaks": make_repeater("\n"),
    "returns": make_repeater("\r\n"),
    "combining marks": make_repeater("\u0300", before="a"),
    "letters outside the first plane": make_repeater("\U0001f600"),
    "letters that grow in lower case": make_repeater("\u0130"),
    "hangul": make_repeater("\uac00"),
    "no spaces": make_repeater("a"),
    "words": make_repeater("lorem ipsum "),
    "entities": make_repeater("&amp;"),
    "tags": make_repeater("<b>"),
    "open tags": make_repeater("<a "),
    "open tags with quotes": make_repeater("<a b='"),
    "comments": make_repeater("<!--"),
    "process names": make_repeater("<a: "),
}

#: Against parsers of Markdown.
MARKDOWN: Final[dict[str, Maker]] = {
    "schemes": make_repeater("a://"),
    "web schemes": make_repeater("http://"),
    "addresses": make_repeater("http://a.b "),
    "address full of brackets": make_repeater("(", before="http://a"),
    "address full of dots": make_repeater(".", before="http://a"),
    "address full of stops": make_repeater("a.!", before="http://"),
    "addresses without blanks": make_repeater("http://a.b/(x),"),
    "colons": make_repeater(":"),
    "letters and colons": make_repeater("a:"),
    "e-mail signs": make_repeater("a@"),
    "open brackets": make_repeater("["),
    "open images": make_repeater("!["),
    "brackets": make_repeater("[]"),
    "nested brackets": _make_nested_text_builder("[", "]", "a"),
    "open links": make_repeater("[a]("),
    "open link titles": make_repeater('[a](b "'),
    "links": make_repeater("[a](b)"),
    "open link destinations": make_repeater("[a](<b"),
    "nested link brackets": make_repeater("(", before="[a](b"),
    "references": make_repeater("[a][b]"),
    "reference definitions": _make_numbered_lines_builder("[a{}]: b\n"),
    "used reference definitions": _make_numbered_lines_builder("[a{}]: b\n\n[a{}]\n"),
    "open reference titles": make_repeater("[a]: b '\n"),
    "stars": make_repeater("*"),
    "stars and letters": make_repeater("*a "),
    "stars around letters": make_repeater("a*b"),
    "star pairs": make_repeater("a**b"),
    "stars and lines": make_repeater("*a _b "),
    "mixed emphasis": make_repeater("**x* "),
    "underscores": make_repeater("_a"),
    "tildes": make_repeater("~~a"),
    "backticks": make_repeater("`"),
    "backtick runs": _build_backtick_runs,
    "backticks and letters": make_repeater("`a``b"),
    "quoted lines": make_repeater(">"),
    "quoted blanks": make_repeater("> "),
    "quotes on lines": make_repeater("> a\n>> b\n"),
    "list items": make_repeater("- "),
    "lists": make_repeater("- a\n"),
    "deep lists": make_repeater("* * a\n"),
    "numbered lists": make_repeater("1. a\n"),
    "growing lists": lambda size: "".join(f"{' ' * (2 * number)}- a\n" for number in range(int(size**0.5))),
    "tables": make_repeater("|a|b|\n", before="|a|b|\n|-|-|\n"),
    "wide tables": _build_wide_and_long_table,
    "table heads": make_repeater("a|", after="\n-|-\n"),
    "bars": make_repeater("|"),
    "headings": make_repeater("# a\n"),
    "heading levels": make_repeater("#"),
    "underlined headings": make_repeater("a\n-\n"),
    "rules": make_repeater("---\n"),
    "rule characters": make_repeater("* "),
    "fences": make_repeater("```\n"),
    "fences of other languages": _make_numbered_lines_builder("```a{}\nb\n```\n"),
    "fences inside quotes": make_repeater("> ```\n"),
    "escapes of punctuation": make_repeater("\\*"),
    "named entities": make_repeater("&lt;"),
    "open entities": make_repeater("&"),
    "numeric entities": make_repeater("&#x41;"),
    "angle brackets": make_repeater("<"),
    "angle addresses": make_repeater("<a:b"),
    "hard breaks": make_repeater("a  \n"),
    "blank lines with blanks": make_repeater("  \n"),
    "straight quotes": make_repeater("\"a' "),
    "dots and dashes": make_repeater("... -- (c) "),
}

#: Against syntax highlighting: pieces that many grammars scan ahead from.
CODE: Final[dict[str, Maker]] = {
    "code: strings": make_repeater('"a'),
    "code: raw strings": make_repeater('r"'),
    "code: triple quotes": make_repeater('"""a'),
    "code: comments": make_repeater("/*"),
    "code: line comments": make_repeater("// a\n"),
    "code: hashes": make_repeater("# a\n"),
    "code: braces": make_repeater("{"),
    "code: parentheses": make_repeater("("),
    "code: calls": make_repeater("a("),
    "code: arrows": make_repeater("a<b>"),
    "code: generics": make_repeater("A<A<"),
    "code: declarations": make_repeater("a b "),
    "code: functions": make_repeater("int a(b "),
    "code: dotted names": make_repeater("a.b"),
    "code: annotations": make_repeater("@a "),
    "code: prompts": make_repeater("$ a\n"),
    "code: prompts without lines": make_repeater("a@b:c$ "),
    "code: dollars": make_repeater("${"),
    "code: commands": make_repeater("$(a "),
    "code: backquotes": make_repeater("`a"),
    "code: here-documents": make_repeater("<<A\n"),
    "code: substitutions": make_repeater("s/a/"),
    "code: divisions": make_repeater("a/b"),
    "code: regular expressions": make_repeater("= /a"),
    "code: slashes": make_repeater("/"),
    "code: pluses": make_repeater("+"),
    "code: added lines": make_repeater("+a\n"),
    "code: diff heads": make_repeater("--- a\n+++ b\n@@ -1 +1 @@\n"),
    "code: tags": make_repeater("<a b=c>"),
    "code: open attributes": make_repeater("<a b='"),
    "code: scripts": make_repeater("<script>"),
    "code: styles": make_repeater("a{b:c;"),
    "code: keys": make_repeater("a: b\n"),
    "code: deep keys": make_repeater("- - a: "),
    "code: anchors": make_repeater("&a *a "),
    "code: sections": make_repeater("[a]\n"),
    "code: numbers": make_repeater("1e1"),
    "code: long numbers": make_repeater("1_000"),
    "code: quoted words": make_repeater("'a' "),
    "code: escaped quotes": make_repeater('\\"'),
    "code: words": make_repeater("select from where "),
    "code: keywords": make_repeater("class a extends b "),
    "code: imports": make_repeater("import a."),
    "code: packages": make_repeater("package a::"),
    "code: format strings": make_repeater('f"{a'),
    "code: spaces": make_repeater(" "),
    "code: lines with spaces": make_repeater(" \n"),
    "code: continued lines": make_repeater("a\\\n"),
    "code: equals": make_repeater("a=b "),
    "code: colons": make_repeater("a:"),
    "code: letters": make_repeater("a"),
    "code: sigils": make_repeater("$a@b%c"),
    "code: pod": make_repeater("=a\n"),
    "code: questions": make_repeater("a?b:"),
    "code: stars": make_repeater("*a "),
    "code: ampersands": make_repeater("a&&b||"),
}


def _build_number_list(size: int) -> str:
    return f"[{','.join('1' * (size // 2))}]"


#: Valid JSON texts against parsers, trees and everything that walks values.
JSON: Final[dict[str, Maker]] = {
    "nested lists": _make_nested_text_builder("[", "]"),
    "nested objects": _make_nested_text_builder('{"a":', "}", "1"),
    "many numbers": _build_number_list,
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


def _build_deep_value(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


def _build_nested_results(levels: int) -> dict[str, Any]:
    block: dict[str, Any] = {"kind": "text", "text": "bottom"}
    for level in range(levels):
        block = {"kind": "tool_result", "call_id": f"c{level}", "content": [block]}
    return block


#: Stored messages of the maximum depth and with many parts.
MESSAGES: Final[dict[str, dict[str, Any]]] = {
    "as deep as is stored": {
        "id": "deep",
        "role": "assistant",
        "blocks": [{"kind": "odd", "value": _build_deep_value(196)}],
    },
    "deep arguments": {
        "id": "deep-args",
        "role": "assistant",
        "blocks": [{"kind": "tool_call", "id": "d1", "name": "pay", "args": _build_deep_value(196)}],
    },
    "results in results": {"id": "nested", "role": "tool", "blocks": [_build_nested_results(90)]},
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
