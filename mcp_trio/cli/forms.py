"""The questions of a server, put to whoever sits at the terminal.

A form is asked field by field; an empty line takes the default or leaves the field out, and a
value that the form does not allow is asked for again. Where there is no terminal the answer is no.
(MCP 2026-07-28, client/elicitation, client/sampling, client/roots)
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import trio

from mcp_trio.cli.screen import Screen, to_json
from mcp_trio.cli.untrusted import one_line
from mcp_trio.exceptions import MCPError
from mcp_trio.protocol.json_schema import compile_schema
from mcp_trio.protocol.types import (
    CreateMessageRequestParams,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    RequestParams,
)
from mcp_trio.wire.jsonrpc import JSONObject

REJECTED = -1  # the code that the spec uses where a user refuses sampling
YES_OR_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


@attrs.define(eq=False)
class Questions:
    """The callbacks of a client that has a terminal, or has not.

    Args:
        screen: Where to ask.
        roots: The URIs to answer `roots/list` with.
    """

    screen: Screen
    roots: Sequence[str] = ()
    _one_at_a_time: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def list_roots(self, _request: RequestParams) -> Sequence[str]:
        return self.roots

    def sample(self, _request: CreateMessageRequestParams) -> str:
        raise MCPError(REJECTED, "Sampling was refused: mcp-trio has no model to ask.")

    async def elicit(
        self, request: ElicitRequestFormParams | ElicitRequestURLParams
    ) -> ElicitResult:
        async with self._one_at_a_time:
            self.screen.hide_bar()
            self.screen.say(f"The server asks: {request.message}", "bold")
            if not self.screen.interactive:
                self.screen.say("Declined: there is no terminal to answer at.")
                return ElicitResult("decline")
            if isinstance(request, ElicitRequestURLParams):
                return await self._visit(request.url)
            return await self._fill_in(request.requested_schema)

    async def _visit(self, url: str) -> ElicitResult:
        self.screen.say(f"It wants you to open {url}")
        return ElicitResult(await self._agree("Will you? [y/N] ", default=False))

    async def _fill_in(self, schema: JSONObject) -> ElicitResult:
        action = await self._agree("Answer? [Y/n] ", default=True)
        if action != "accept":
            return ElicitResult(action)
        content: JSONObject = {}
        for field in read_form(schema):
            for line in field.introduction():
                self.screen.say(line)
            while True:
                text = await self.screen.ask(field.prompt)
                if text is None:
                    return ElicitResult("cancel")
                try:
                    content.update(field.read(text.strip()))
                except ValueError as exc:
                    self.screen.say(f"  {exc}", "red")
                else:
                    break
        return ElicitResult("accept", content)

    async def _agree(self, prompt: str, *, default: bool) -> Any:
        text = await self.screen.ask(prompt)
        if text is None:
            return "cancel"
        return "accept" if YES_OR_NO.get(text.strip().lower(), default) else "decline"


@attrs.frozen
class Field:
    """One field of a form.

    Attributes:
        schema: Its schema, as the server sent it.
        options: For a choice, each value and what people read.
    """

    name: str
    schema: JSONObject
    required: bool
    options: dict[str, str]

    @property
    def several(self) -> bool:
        return self.schema.get("type") == "array"

    def introduction(self) -> Iterator[str]:
        """What to show before the prompt."""
        if "description" in self.schema:
            yield f"  {self.schema['description']}"
        for number, (value, title) in enumerate(self.options.items(), 1):
            yield f"  {number}. {title}" + ("" if title == value else f" ({value})")

    @property
    def prompt(self) -> str:
        notes = []
        if self.options:
            notes.append("several, with commas" if self.several else "number or value")
        elif self.schema.get("type") == "boolean":
            notes.append("y/n")
        if "default" in self.schema:
            notes.append(f"default {to_json(self.schema['default'])}")
        elif not self.required:
            notes.append("optional")
        note = f" [{'; '.join(notes)}]" if notes else ""
        return one_line(f"{self.schema.get('title') or self.name}{note}:") + " "

    def read(self, text: str) -> JSONObject:
        """What goes into the form for a line of text: the field, or nothing if it was left out.

        Raises:
            ValueError: The form does not allow it.
        """
        if not text and ("default" in self.schema or not self.required):
            return {}  # the client fills in defaults
        if not text and self.schema.get("minLength") != 0:
            raise ValueError("An answer is required.")
        value = READERS.get(self.schema.get("type"), _same)(self, text)
        form = {"type": "object", "properties": {self.name: self.schema}}
        violations = compile_schema(form).violations({self.name: value})
        if violations:
            raise ValueError("; ".join(map(str, violations)))
        return {self.name: value}

    def choose(self, text: str) -> str:
        values = list(self.options)
        if text not in self.options and text.isdecimal() and 0 < int(text) <= len(values):
            return values[int(text) - 1]
        return text


def _boolean(_field: Field, text: str) -> bool:
    if text.lower() not in YES_OR_NO:
        raise ValueError("Type y or n.")
    return YES_OR_NO[text.lower()]


def _number(_field: Field, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError("Type a number.") from None


def _string(field: Field, text: str) -> str:
    return field.choose(text)


def _several(field: Field, text: str) -> list[str]:
    return [field.choose(word.strip()) for word in text.split(",")]


def _same(_field: Field, text: str) -> str:
    return text


READERS: dict[Any, Callable[[Field, str], Any]] = {
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": _boolean,
    "array": _several,
}


def read_form(schema: JSONObject) -> list[Field]:
    """The fields of a form, in their order."""
    required = schema.get("required") or ()
    return [
        Field(name, field, name in required, _options(field))
        for name, field in (schema.get("properties") or {}).items()
        if isinstance(field, dict)
    ]


def _options(field: JSONObject) -> dict[str, str]:
    """The values of a choice and their titles, in whichever of the four forms it has."""
    choice = field.get("items") if field.get("type") == "array" else field
    if not isinstance(choice, dict):
        return {}
    titled = choice.get("oneOf") or choice.get("anyOf") or ()
    values = [option.get("const") for option in titled] or choice.get("enum") or []
    titles = [option.get("title") for option in titled] or choice.get("enumNames") or values
    return {str(value): str(title) for value, title in zip(values, titles, strict=False)}
