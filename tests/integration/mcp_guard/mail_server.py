"""MCP server for tests, without the SDK: it writes each effect to a file, with its process id."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Never


def send_mail(params: dict[str, Any]) -> dict[str, Any]:
    text = f"sent to {params['arguments']['to']}"
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}, "isError": False}


def fail(params: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "The mailbox is full."}], "isError": True}


def ask(params: dict[str, Any]) -> dict[str, Any]:
    if "inputResponses" not in params:
        return {"resultType": "input_required", "inputRequests": {}, "requestState": "1"}
    return {"content": [{"type": "text", "text": "done"}]}


def hang(params: dict[str, Any]) -> Never:
    sys.stdin.read()  # until the guard closes it
    os._exit(0)


TOOLS = {"send_mail": send_mail, "pay": send_mail, "get_mail": send_mail, "fail": fail, "ask": ask, "hang": hang}


def answer(method: str, params: dict[str, Any], effects: str) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "mail", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        schema = {"type": "object"}
        return {"tools": [{"name": name, "inputSchema": schema, "outputSchema": schema} for name in TOOLS]}
    if method == "environment":
        return {"names": sorted(os.environ)}
    tool = TOOLS[params["name"]]
    with open(effects, "a") as file:  # noqa: PTH123 - nothing is imported that takes time
        file.write(f"{params['name']} {os.getpid()}\n")
    return tool(params)


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        reply["result"] = answer(request["method"], request.get("params") or {}, sys.argv[1])
    except KeyError as error:
        code = -32602 if request["params"].get("name") == "nothing" else -32603
        reply["error"] = {"code": code, "message": f"unknown: {error}"}
    print(json.dumps(reply), flush=True)
