"""What a server says cannot take over a terminal."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_trio.cli.untrusted import json_text, one_line, plain

OBEYED = set(map(chr, [*range(0x20), 0x7F, *range(0x80, 0xA0)])) - {"\n", "\t"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07x", "x"),
        ("\x1b]52;c;c2VjcmV0\x1b\\x", "x"),
        ("\x9b31mred", "red"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x1b]never ended", "never ended"),
        ("\x1b(Bx\x1b7", "x"),
        ("a\rb\x08c\x00", "abc"),
        ("one\r\ntwo\ttabbed", "one\ntwo\ttabbed"),
        ("abc\u202edcba", "abcdcba"),
        ("naïve ❌ 日本", "naïve ❌ 日本"),
    ],
)
def test_control_sequences_vanish(text: str, shown: str) -> None:
    """Colours, titles, the clipboard, overwriting: none of it is a server's business."""
    assert plain(text) == shown


@given(st.text("\x1b[]P\\;m07\x9b\x9d\x07 a\n\r\u202e"))
@settings(max_examples=200)
def test_nothing_that_is_obeyed_is_left(text: str) -> None:
    """Taking sequences out must not make new ones of what stood around them."""
    assert not OBEYED & set(plain(text))


@given(
    st.recursive(st.text(), lambda values: st.lists(values) | st.dictionaries(st.text(), values))
)
@settings(max_examples=100)
def test_json_is_the_same_document_and_harmless(value: object) -> None:
    """JSON for programs may be printed on a terminal as well, and loses nothing by that."""
    text = json_text(value)
    assert json.loads(text) == value
    assert not OBEYED & set(text)


def test_one_line_keeps_the_end() -> None:
    """Of a long traceback the last lines say what happened."""
    assert one_line("a\n\n  b\n") == "a | b"
    assert one_line("x" * 500 + "\nthe error", limit=20).endswith("| the error")
