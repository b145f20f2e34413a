"""Arguments of tools and prompts on the command line."""

import json

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_trio.cli.words import prompt_arguments, tool_arguments


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ([], {}),
        (["a=1", "b=2.5"], {"a": 1, "b": 2.5}),
        (["text=hello world"], {"text": "hello world"}),
        (["text="], {"text": ""}),
        (["text=a=b"], {"text": "a=b"}),
        (["text=NaN", "more=-Infinity"], {"text": "NaN", "more": "-Infinity"}),
        (["flag=true", "none=null", "list=[1, 2]"], {"flag": True, "none": None, "list": [1, 2]}),
        (['text="1"'], {"text": "1"}),
        (["big=" + "9" * 30], {"big": int("9" * 30)}),
        (['{"a": 1, "text": "x=y"}'], {"a": 1, "text": "x=y"}),
        (["deep=" + "[" * 100_000], {"deep": "[" * 100_000}),
    ],
)
def test_words_become_arguments(words: list[str], arguments: dict[str, object]) -> None:
    """A value is JSON where it parses, else a string; one JSON object stands for all of them."""
    assert tool_arguments(words) == arguments


@given(st.dictionaries(st.text("ab", min_size=1), st.none() | st.integers() | st.text()))
@settings(max_examples=50)
def test_a_json_object_comes_through(arguments: dict[str, object]) -> None:
    """Whatever needs quoting can be passed as JSON, unchanged."""
    assert tool_arguments([json.dumps(arguments)]) == arguments


def test_arguments_of_prompts_stay_strings() -> None:
    """A prompt's arguments are strings by the protocol, also if they look like numbers."""
    assert prompt_arguments(["n=1", "x={}"]) == {"n": "1", "x": "{}"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hello"], "'hello' is not NAME=VALUE"),
        (["=1"], "'=1' is not NAME=VALUE"),
        (["a=1", "a=2"], "'a' is given twice"),
        (["{"], "not a JSON object"),
        (['{"a": NaN}'], "not a JSON object"),
        (["weather.py:server"], "--target"),
        (['{"a": 1}', "b=2"], "is not NAME=VALUE"),
    ],
)
def test_what_is_no_argument_is_named(words: list[str], message: str) -> None:
    """A slip of the fingers is told with the word that it is in."""
    with pytest.raises(click.UsageError, match=message):
        tool_arguments(words)
