"""The words of a command line that are arguments of a tool or a prompt."""

import json
from collections.abc import Sequence
from typing import Any

import click


def _not_json(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def tool_arguments(words: Sequence[str]) -> dict[str, Any]:
    """`a=1 text=hello` or one JSON object. A value that is JSON is that, any other a string.

    Raises:
        click.UsageError: A word is neither.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _json_object(words[0])
    return {name: _value(text) for name, text in prompt_arguments(words).items()}


def prompt_arguments(words: Sequence[str]) -> dict[str, str]:
    """`topic=nurseries`: the arguments of a prompt, which are strings.

    Raises:
        click.UsageError: A word has no `=`, or a name occurs twice.
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise click.UsageError(_about(word))
        if name in found:
            raise click.UsageError(f"The argument {name!r} is given twice.")
        found[name] = text
    return found


def _json_object(word: str) -> dict[str, Any]:
    try:
        found = json.loads(word, parse_constant=_not_json)
    except ValueError as exc:
        raise click.UsageError(f"The arguments are not a JSON object: {exc}.") from None
    assert isinstance(found, dict)  # it starts with a brace
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        return text


def _about(word: str) -> str:
    if ":" in word and not word.startswith("{"):
        return f"{word!r} is not NAME=VALUE. A server is given by --target, or after a lone --."
    return (
        f"{word!r} is not NAME=VALUE; JSON arguments are one word, such as '{{\"a\": 1}}',"
        " and a server's command stands after --."
    )
