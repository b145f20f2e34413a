"""The command line and the servers of others: what they have, and a tool of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import peers
from tests.cli.runs import mcp_trio
from tests.interop.kit import HTTP_KITS, KITS, SSE_KITS, TODAY, Kit

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("mcp_python", "fastmcp_python", "node", "npm_project"),
]

FOREIGN_KITS = [kit for kit in KITS if kit.name != "ours"]
FOREIGN_KITS += [kit for kit in HTTP_KITS if kit.name != "ours" and kit.mode == "auto"]
FOREIGN_KITS += [kit for kit in SSE_KITS if kit.name != "ours" and kit.mode == "auto"]
each_kit = pytest.mark.parametrize("kit", FOREIGN_KITS, ids=str)


@pytest.fixture
def target(kit: Kit, origin_of: Callable[[Kit], str]) -> list[str]:
    """How the command line is told of a server."""
    return ["--", *kit.argv()] if kit.path is None else [origin_of(kit) + kit.path]


@each_kit
def test_inspect(kit: Kit, target: list[str]) -> None:
    """Everything that a server has is in the document, in wire form."""
    inspected = mcp_trio("inspect", "--json", "--mode", kit.mode, *target)
    assert inspected.status == 0, inspected.stderr
    document = inspected.document
    assert document["protocolVersion"] == kit.version
    assert document["serverInfo"]["name"] == "kit"
    assert document["instructions"] == "For tests."
    assert {"tools", "resources", "prompts"} <= set(document["capabilities"])
    (add, *others) = document["tools"]
    assert add["name"] == "add"
    assert set(add["inputSchema"]["properties"]) == {"a", "b"}
    assert len(others) >= 13  # what other tests have added to a server that runs is there as well
    assert [resource["uri"] for resource in document["resources"]] == [TODAY]
    assert [item["uriTemplate"] for item in document["resourceTemplates"]] == ["memo://{name}"]
    assert [prompt["name"] for prompt in document["prompts"]] == ["review"]


@each_kit
def test_call(kit: Kit, target: list[str]) -> None:
    """A tool's result is the document; a server that cannot be listened to changes nothing."""
    where = target if kit.path is None else ["--target", *target]
    called = mcp_trio("call", "--json", "--mode", kit.mode, "add", "a=2", "b=3", *where)
    assert called.status == 0, called.stderr
    assert called.document["content"][0]["text"] == "5"
    assert called.document["structuredContent"] == {"result": 5}


def test_reference_servers(tmp_path: Path) -> None:
    """The servers that everybody tries first: listed, and a tool of each called."""
    (tmp_path / "a.txt").write_text("one\u2028two", encoding="utf-8")
    memory = f"MEMORY_FILE_PATH={tmp_path / 'memory.jsonl'}"
    ada = {"entities": [{"name": "Ada", "entityType": "person", "observations": []}]}
    for server, options, tool, arguments, text in (
        ("server-everything", [], "echo", ["message=\u2028"], "Echo: \u2028"),
        ("server-filesystem", [], "read_text_file", [f"path={tmp_path}/a.txt"], "one\u2028two"),
        ("server-memory", ["-e", memory], "create_entities", [json.dumps(ada)], "Ada"),
    ):
        argv = peers.npm_server(server)
        if server == "server-filesystem":
            argv.append(str(tmp_path))
        inspected = mcp_trio("inspect", "--json", *options, "--", *argv)
        assert inspected.status == 0, inspected.stderr
        assert inspected.document["protocolVersion"] == "2025-11-25"
        assert tool in [item["name"] for item in inspected.document["tools"]]
        called = mcp_trio("call", "--json", *options, tool, *arguments, "--", *argv)
        assert called.status == 0, called.stderr
        assert text in called.document["content"][0]["text"]
