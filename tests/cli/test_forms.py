"""Questions of a server on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio

import mcp_trio
from mcp_trio.cli.forms import Questions, read_form
from mcp_trio.cli.screen import Screen
from mcp_trio.demo import server as demo
from mcp_trio.protocol.types import (
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
)

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "age": {"type": "integer", "minimum": 0},
        "ratio": {"type": "number", "default": 0.5},
        "sure": {"type": "boolean"},
        "plain": {"type": "string", "enum": ["red", "green"]},
        "titled": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}]},
        "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]},
        "several": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}},
    },
    "required": ["name", "age"],
}


@attrs.define(eq=False)
class Person(Screen):
    """Sits at the terminal and types these lines."""

    lines: list[str | None] = attrs.field(factory=list)
    shown: list[str] = attrs.field(factory=list)
    present: bool = True

    @property
    def interactive(self) -> bool:
        return self.present

    def say(self, text: str, style: str = "") -> None:
        self.shown.append(text)

    async def ask(self, prompt: str) -> str | None:
        await trio.lowlevel.checkpoint()
        self.shown.append(prompt)
        return self.lines.pop(0)


async def answered(*lines: str | None, schema: dict[str, Any] = FORM) -> tuple[ElicitResult, str]:
    person = Person(lines=list(lines))
    result = await Questions(person).elicit(ElicitRequestFormParams("Who?", schema))
    assert not person.lines
    return result, "\n".join(person.shown)


async def test_a_form_is_filled_in() -> None:
    """Every kind of field arrives as the JSON that its schema asks for."""
    lines = ["y", "Ada", "36", "0.25", "Yes", "2", "1", "b", "x"]
    result, shown = await answered(*lines)
    assert result.action == "accept"
    assert result.content == {
        "name": "Ada",
        "age": 36,
        "ratio": 0.25,
        "sure": True,
        "plain": "green",
        "titled": "r",
        "old": "b",
        "several": ["x"],
    }
    assert "Your name:" in shown
    assert "  1. Red (r)" in shown
    assert "ratio [default 0.5]:" in shown


async def test_what_may_be_left_out_is_left_out() -> None:
    """An empty line is no empty string, and the client fills in the defaults."""
    result, _ = await answered("", "Ada", "36", "", "", "", "", "", "")
    assert result.content == {"name": "Ada", "age": 36}


async def test_what_the_form_refuses_is_asked_again() -> None:
    """A server never sees an answer that its own schema forbids."""
    lines = ["y", "", "A", "Ada", "old", "-1", "36", "", "maybe", "n", "blue", "red", *3 * [""]]
    result, shown = await answered(*lines)
    assert result.content == {"name": "Ada", "age": 36, "sure": False, "plain": "red"}
    for complaint in ("required", "shorter", "number", "minimum", "y or n", "blue"):
        assert complaint in shown


@pytest.mark.parametrize(
    ("lines", "action"),
    [(["n"], "decline"), ([None], "cancel"), (["y", "Ada", None], "cancel")],
)
async def test_a_person_may_refuse(lines: Sequence[str | None], action: str) -> None:
    """No is an answer, and so is leaving (Ctrl-D)."""
    result, _ = await answered(*lines)
    assert (result.action, result.content) == (action, None)


async def test_a_page_is_opened_by_the_person_alone() -> None:
    """Nothing is opened for anybody, and silence is no consent."""
    for line, action in (("", "decline"), ("y", "accept"), (None, "cancel")):
        person = Person(lines=[line])
        asked = ElicitRequestURLParams("Pay", "https://example.com/pay", "1")
        assert (await Questions(person).elicit(asked)).action == action
        assert any("https://example.com/pay" in text for text in person.shown)


async def test_without_a_terminal_the_answer_is_no() -> None:
    """A script does not hang at a question that nobody can answer."""
    person = Person(present=False)
    result = await Questions(person).elicit(ElicitRequestFormParams("Who?", FORM))
    assert result.action == "decline"


@pytest.mark.parametrize("mode", ["legacy", "modern"])
async def test_the_questions_of_a_server_arrive(mode: str) -> None:
    """Form, roots and a polite refusal of sampling work against a real server."""
    questions = Questions(Person(lines=["y", "Ada", ""]), ["file:///home"])
    async with mcp_trio.open_client(
        demo,
        mode=mode,
        on_elicit=questions.elicit,
        on_sample=questions.sample,
        on_list_roots=questions.list_roots,
    ) as client:
        greeting = await client.call_tool("greet")
        assert greeting.content == [mcp_trio.TextContent("Hello, Ada!")]
        roots = await client.call_tool("roots")
        assert roots.structured_content == {"result": ["file:///home"]}
        with pytest.raises(mcp_trio.MCPError, match="refused"):
            await client.call_tool("ask_model", {"question": "?"})


def test_a_form_that_is_none_has_no_fields() -> None:
    """What a server sends as a schema need not be one."""
    assert read_form({"properties": {"odd": 1, "array": {"type": "array", "items": 3}}})
    assert read_form({"properties": None}) == []
