"""The command line and the servers of others: what they have, and a tool of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import peers
from tests.cli.runs import mcp_trio
from tests.interop.kit import KITS, TODAY, Kit

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("mcp_python", "fastmcp_python", "node", "npm_project"),
]

FOREIGN_KITS = [kit for kit in KITS if kit.name != "ours"]


@pytest.mark.parametrize("kit", FOREIGN_KITS, ids=str)
def test_inspect(kit: Kit) -> None:
    """Everything that a server has is in the document, in wire form."""
    inspected = mcp_trio("inspect", "--json", "--mode", kit.mode, "--", *kit.argv())
    assert inspected.status == 0, inspected.stderr
    document = inspected.document
    assert document["protocolVersion"] == kit.version
    assert document["serverInfo"]["name"] == "kit"
    assert document["instructions"] == "For tests."
    assert {"tools", "resources", "prompts"} <= set(document["capabilities"])
    (add, *others) = document["tools"]
    assert add["name"] == "add"
    assert set(add["inputSchema"]["properties"]) == {"a", "b"}
    assert len(others) == 13
    assert [resource["uri"] for resource in document["resources"]] == [TODAY]
    assert [item["uriTemplate"] for item in document["resourceTemplates"]] == ["memo://{name}"]
    assert [prompt["name"] for prompt in document["prompts"]] == ["review"]


@pytest.mark.parametrize("kit", FOREIGN_KITS, ids=str)
def test_call(kit: Kit) -> None:
    """A tool's result is the document; a server that cannot be listened to changes nothing."""
    words = ("--json", "--mode", kit.mode, "add", "a=2", "b=3", "--", *kit.argv())
    called = mcp_trio("call", *words)
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
