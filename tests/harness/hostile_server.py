"""A server whose answers have shapes that nobody asked for.

Only its revision is as it should be: lists are numbers, names are lists, and it sends requests
whose methods are no strings.
"""

import json
import sys
from typing import Any

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
    "serverInfo": ["hostile"],
    "instructions": [],
}
RESULTS: dict[str, Any] = {
    "initialize": HELLO,
    "server/discover": {"supportedVersions": 5},
    "tools/list": {"tools": [{"name": []}, {"name": None, "annotations": 7}, 3], "nextCursor": {}},
    "resources/list": {"resources": 7},
    "resources/templates/list": {"resourceTemplates": True},
    "prompts/list": {"prompts": "all"},
}
ODD_REQUEST = {"jsonrpc": "2.0", "id": {"a": []}, "method": ["ping"], "params": 5}


def say(message: object) -> None:
    print(json.dumps(message), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if not isinstance(message, dict) or "id" not in message:
        continue
    say(ODD_REQUEST)
    result = RESULTS.get(message.get("method", ""), {})
    say({"jsonrpc": "2.0", "id": message["id"], "result": result})
