"""Faults from small functions: one that changes an answer, or a request, in place.

    @replies("tools/list")
    def no_names(answer):
        \"\"\"Lists tools without their names.\"\"\"
        for tool in answer["result"]["tools"]:
            del tool["name"]

What a function returns goes in place of the message; nothing means the message itself, and a list
means several. What the mutant does wrong is the function's docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from mcp_trio.harness.mutants.frames import Back, Fault, Frame
from mcp_trio.wire.jsonrpc import JSONObject

Change: TypeAlias = Callable[[JSONObject], Any]
"""Takes a message, or its params."""
ChangeOfBoth: TypeAlias = Callable[[JSONObject, JSONObject], Any]
"""Takes an answer and the params of its request."""


def replies(*methods: str) -> Callable[[Change], Callable[[], Fault]]:
    """A fault that changes the answers to requests of some methods."""

    def decorate(change: Change) -> Callable[[], Fault]:
        def change_answer(answer: JSONObject, _: JSONObject) -> Any:
            return change(answer)

        return _named(replies_to(*methods)(change_answer), change)

    return decorate


def replies_to(*methods: str) -> Callable[[ChangeOfBoth], Callable[[], Fault]]:
    """The same, of a function that takes the params of the request as well."""

    def decorate(change: ChangeOfBoth) -> Callable[[], Fault]:
        class Changed(Remembering):
            def answered(self, answer: JSONObject, request: JSONObject) -> Iterable[Frame | Back]:
                if request.get("method") not in methods:
                    return [answer]
                return _several(answer, change(answer, request.get("params") or {}))

        return _named(Changed, change)

    return decorate


def requests(*methods: str) -> Callable[[Change], Callable[[], Fault]]:
    """A fault that changes the params of requests of some methods before they arrive."""

    def decorate(change: Change) -> Callable[[], Fault]:
        class Changed(Fault):
            def received(self, frame: Frame) -> Iterable[Frame | Back]:
                if isinstance(frame, dict) and frame.get("method") in methods:
                    return _several(frame, change(frame.setdefault("params", {})))
                return [frame]

        return _named(Changed, change)

    return decorate


def notices(*methods: str) -> Callable[[Change], Callable[[], Fault]]:
    """A fault that changes the params of the server's own messages of some methods."""

    def decorate(change: Change) -> Callable[[], Fault]:
        class Changed(Fault):
            def sent(self, frame: Frame) -> Iterable[Frame | Back]:
                if isinstance(frame, dict) and frame.get("method") in methods:
                    return _several(frame, change(frame.setdefault("params", {})))
                return [frame]

        return _named(Changed, change)

    return decorate


class Remembering(Fault):
    """Knows the request that an answer answers."""

    def __init__(self) -> None:
        self._requests: dict[Any, JSONObject] = {}

    def received(self, frame: Frame) -> Iterable[Frame | Back]:
        if isinstance(frame, dict) and "method" in frame and _is_key(frame.get("id")):
            self._requests[frame["id"]] = frame
        yield frame

    def sent(self, frame: Frame) -> Iterable[Frame | Back]:
        is_answer = isinstance(frame, dict) and "method" not in frame and _is_key(frame.get("id"))
        if isinstance(frame, dict) and is_answer:
            yield from self.answered(frame, self._requests.pop(frame["id"], {}))
        else:
            yield frame

    def answered(self, answer: JSONObject, request: JSONObject) -> Iterable[Frame | Back]:
        """What goes on in place of an answer."""
        return [answer]


def fails(answer: JSONObject, code: int, message: str = "the mutant says no") -> JSONObject:
    """An error in place of an answer."""
    return {"jsonrpc": "2.0", "id": answer["id"], "error": {"code": code, "message": message}}


def succeeds(answer: JSONObject, **result: Any) -> JSONObject:
    """A result in place of an answer."""
    complete = {"resultType": "complete", **result}
    return {"jsonrpc": "2.0", "id": answer["id"], "result": complete}


def questions_in(message: JSONObject, method: str) -> Iterator[JSONObject]:
    """The parameters of what a message of the server asks by a method, in either era."""
    if message.get("method") == method:
        yield message.setdefault("params", {})
    result = message.get("result")
    asked = result.get("inputRequests") if isinstance(result, dict) else None
    for request in asked.values() if isinstance(asked, dict) else ():
        if request.get("method") == method:
            yield request.setdefault("params", {})


def asking(method: str) -> Callable[[Callable[[JSONObject], object]], Callable[[], Fault]]:
    """A fault that changes the parameters of what the server asks by a method, in either era."""

    def decorate(change: Callable[[JSONObject], object]) -> Callable[[], Fault]:
        class Changed(Fault):
            def sent(self, frame: Frame) -> Iterable[Frame | Back]:
                if isinstance(frame, dict):
                    for params in questions_in(frame, method):
                        change(params)
                return [frame]

        return _named(Changed, change)

    return decorate


def _several(message: JSONObject, changed: Any) -> list[Frame | Back]:
    if changed is None:
        return [message]
    return changed if isinstance(changed, list) else [changed]


def _named(fault: Callable[[], Fault], change: Callable[..., Any]) -> Callable[[], Fault]:
    fault.__name__ = fault.__qualname__ = change.__name__
    fault.__doc__ = change.__doc__
    return fault


def _is_key(id: Any) -> bool:
    return isinstance(id, int | str)
