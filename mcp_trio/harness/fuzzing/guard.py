"""What no fuzzing may do: call a tool that does not say that it is read-only.

The strategies do not make such calls. But they also cut, merge and garble messages, and what comes
out of that is looked at once more here, just before it is sent: nothing may pass that anybody
could read as a call of a protected tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


class Guard:
    """Says what may be sent.

    Args:
        protected: The names of the tools that must not be called.
    """

    def __init__(self, protected: Iterable[str] = ()) -> None:
        self._names = tuple(f'"{name}"' for name in protected)
        self._rest = b""

    def allows(self, frame: bytes) -> bool:
        """Whether a frame may be sent."""
        if not self._names:
            return True
        text = frame.decode("utf-8", "replace")
        if "\\" in text:
            text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text).replace("\\/", "/")
        return "tools/call" not in text or not any(name in text for name in self._names)

    def allows_bytes(self, data: bytes) -> bool:
        """Whether bytes may be sent after all that was allowed before, as they may end a line."""
        allowed = self.allows(self._rest + data)
        if allowed:
            self._rest = (self._rest + data).rpartition(b"\n")[2]
        return allowed
