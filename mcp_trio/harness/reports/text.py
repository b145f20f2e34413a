"""What peers said, on its way into a report: every character visible, none of them obeyed.

A report is evidence, so nothing is taken out of it: what a terminal or a browser would obey, and
what cannot be written at all, is there as an escape, `\\u202e`.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from mcp_trio.harness.exchange import Entry

# Controls but line ends and tabs; what reorders or hides text; what is no character.
UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufffe\uffff]"
)
LONGEST_PAYLOAD: Final = 4_000  # characters of one frame; its beginning says what it is
MOST_SHOWN: Final = 60  # entries of one exchange: the first few, and those before the end
FIRST_SHOWN: Final = 10
ONE_LINE: Final = 100  # characters of JSON that is not spread over several lines


def visible(text: str) -> str:
    """The text with everything escaped that is not plainly to be seen; lines stay lines."""
    text = text.replace("\r\n", "\n")
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str, limit: int = 400) -> str:
    """The text as one line; of a longer one, the beginning."""
    line = " ".join(visible(text).split())
    return line if len(line) <= limit else line[:limit] + "..."


@attrs.frozen
class Step:
    """One entry of an exchange, ready to be shown.

    Attributes:
        entry: What it was.
        title: What it is in a few words: "tools/call", "result", "error -32601".
        id: The id of the message, as JSON; empty if there is none.
        payload: What was in it, for people: indented if it is JSON, and clipped if it is long.
        clipped: How many bytes there were, if `payload` does not hold them all; else 0.
    """

    entry: Entry
    title: str
    id: str
    payload: str
    clipped: int

    @classmethod
    def of(cls, entry: Entry) -> "Step":
        text = entry.data.decode("utf-8", "backslashreplace")
        if entry.kind in ("note", "stderr"):
            return cls(entry, visible(text), "", "", entry.length - len(entry.data))
        value, pretty = _read(text)
        cut = len(pretty) > LONGEST_PAYLOAD or entry.length > len(entry.data)
        title, id = _title(value, text, entry.length)
        return cls(entry, title, id, visible(pretty[:LONGEST_PAYLOAD]), entry.length if cut else 0)


def _read(text: str) -> tuple[Any, str]:
    """The value if it is JSON, and how it is shown."""
    try:
        value = json.loads(text)
        line = json.dumps(value, ensure_ascii=False)
        short = len(line) <= ONE_LINE
        return value, line if short else json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None, text


def _title(value: Any, text: str, length: int) -> tuple[str, str]:
    if not isinstance(value, dict):
        kind = "batch" if isinstance(value, list) else "no message"
        return f"{kind}, {length} bytes" if text.strip() else "nothing", ""
    id = one_line(json.dumps(value["id"]), 40) if "id" in value else ""
    if "method" in value:
        return one_line(str(value["method"]), 60), id
    if "error" in value:
        error = value["error"]
        code = error.get("code") if isinstance(error, dict) else None
        return one_line(f"error {json.dumps(code)}", 40), id
    return ("result" if "result" in value else "no message"), id


@attrs.frozen
class Left:
    """Entries in the middle of a long exchange that are not shown."""

    count: int


def steps(exchange: Sequence[Entry]) -> Iterable[Step | Left]:
    """An exchange as it is shown. Of a long one the middle is left out."""
    left = len(exchange) - MOST_SHOWN
    if left <= 1:
        return map(Step.of, exchange)
    first, last = exchange[:FIRST_SHOWN], exchange[FIRST_SHOWN + left :]
    return [*map(Step.of, first), Left(left), *map(Step.of, last)]


def transcript(exchange: Sequence[Entry]) -> str:
    """An exchange as lines of text: `0.013 > tools/call 3 {...}`."""
    lines = []
    for step in steps(exchange):
        if isinstance(step, Left):
            lines.append(f"... {step.count} more ...")
            continue
        mark = {"sent": ">", "received": "<", "stderr": "!", "note": "-"}[step.entry.kind]
        raw = step.entry.data.decode("utf-8", "backslashreplace")
        number = f"#{step.entry.connection} " if step.entry.connection > 1 else ""
        label = f"[{one_line(step.entry.label)}] " if step.entry.label else ""
        lines.append(f"{step.entry.at:7.3f} {number}{mark} {label}{one_line(raw, 1000)}")
    return "\n".join(lines)
