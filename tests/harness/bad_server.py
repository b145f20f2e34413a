"""A server that answers every request with an empty result, whatever was asked.

The word `dead` as its argument makes it say why it cannot start, and exit.
"""

import json
import sys
from collections.abc import Sequence

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "serverInfo": {"name": "bad \x1b[31m", "version": "1"},
}


def main(arguments: Sequence[str]) -> None:
    if "dead" in arguments:
        sys.exit("no licence")
    for line in sys.stdin:
        message = json.loads(line)
        if isinstance(message, dict) and "id" in message:
            result = HELLO if message.get("method") == "initialize" else {}
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
