"""An MCP server for tests: tools that double a number, and note each effect in a file, once."""

import json
import os
import sys
import time

NOTES = sys.argv[1]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    {"name": name, "description": "Doubles.", "inputSchema": SCHEMA, "annotations": {"idempotentHint": True}}
    for name in ("act", "mail")
]


def done():
    try:
        return set(open(NOTES).read().split())
    except FileNotFoundError:
        return set()


SECRET = os.environ.get("SECRET")
if SECRET:
    with open(NOTES + ".secret", "w") as secret:
        secret.write(SECRET)
    print(f"starting with {SECRET}", file=sys.stderr, flush=True)


def call(name, n):
    if n < 0:
        message = f"not below zero; my key is {SECRET}"
        return {"content": [{"type": "text", "text": message}], "isError": True}
    effect = f"{name}-{n}"
    with open(NOTES + ".calls", "a") as calls:
        calls.write(effect + "\n")
    time.sleep(0.001)
    if effect not in done():
        with open(NOTES, "a") as notes:
            notes.write(effect + "\n")
    return {"content": [{"type": "text", "text": str(2 * n)}], "structuredContent": {"value": 2 * n}}


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "test", "version": "1"}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = call(params["name"], params["arguments"]["n"])
    else:
        answer = {"code": -32601, "message": "no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": answer}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
