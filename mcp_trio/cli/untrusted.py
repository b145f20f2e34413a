"""Text that somebody else wrote, on its way to a terminal.

A terminal obeys what it is told to print: escape sequences move the cursor, rewrite what stands
above, change the window's title, put text on the clipboard. What a server sends may come from
anywhere, so all of that is taken out, and so are the characters that make text read in another
order than it is stored in. Line ends and tabs stay.
"""

import json
import re
from typing import Any

# The sequences first, as a whole; whatever control character is left goes alone.
CSI = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
ESCAPE = r"\x1b[ -/]*[0-~]?"
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
ORDER = "[\u202a-\u202e\u2066-\u2069]"
UNSAFE = re.compile("|".join((CSI, STRING, ESCAPE, CONTROL, ORDER)))
UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return UNSAFE.sub("", text.replace("\r\n", "\n"))


def one_line(text: str, limit: int = 400) -> str:
    """The text as one line of at most `limit` characters; of a longer one, the end."""
    line = " | ".join(part for raw in plain(text).split("\n") if (part := raw.strip()))
    return line if len(line) <= limit else "..." + line[-limit:]


def json_text(value: Any) -> str:
    """A JSON document for people and programs alike: indented, and safe to print."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    # These stand inside of strings only, where an escape means the same.
    return UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
