"""The names that ``_meta`` allows."""

import pytest

from mcp_trio.protocol import meta


@pytest.mark.parametrize(
    "key",
    ["name", "a", "a_b-c.d", "com.example/name", "io.modelcontextprotocol/x", "a-1.b/", "x/1"],
)
def test_valid_keys(key: str) -> None:
    """Keys that the specification's rule allows."""
    assert meta.is_valid_key(key)


@pytest.mark.parametrize(
    "key",
    ["", "-a", "a-", ".a", "a b", "1a.b/x", "a..b/x", "a-/x", "/x", "a/b/c", "caf\u00e9", "x\n"],
)
def test_invalid_keys(key: str) -> None:
    """Keys that it does not allow."""
    assert not meta.is_valid_key(key)


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("io.modelcontextprotocol/x", True),
        ("dev.mcp/x", True),
        ("org.modelcontextprotocol.api/x", True),
        ("com.mcp.tools/x", True),
        ("com.example.mcp/x", False),
        ("mcp/x", False),
        ("traceparent", True),
        ("progressToken", True),
        ("name", False),
    ],
)
def test_reserved_keys(key: str, *, reserved: bool) -> None:
    """The second label decides, wherever else the word stands."""
    assert meta.is_reserved_key(key) is reserved


def test_every_key_of_ours_is_reserved_and_valid() -> None:
    """A constant with a typo in it."""
    for name, key in vars(meta).items():
        if name.isupper() and isinstance(key, str) and name != "META" and name[0] != "_":
            assert meta.is_valid_key(key), name
            assert meta.is_reserved_key(key), name


def test_extensions_need_a_prefix() -> None:
    """An extension without a vendor."""
    assert meta.is_extension_id("io.modelcontextprotocol/tasks")
    assert not meta.is_extension_id("tasks")
    assert not meta.is_extension_id("-x/tasks")
