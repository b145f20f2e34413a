"""The public names: what type checkers see is what there is."""

import ast
import inspect

import mcp_trio


def _names_for_type_checkers() -> dict[str, str]:
    tree = ast.parse(inspect.getsource(mcp_trio))
    [block] = [node for node in tree.body if isinstance(node, ast.If) and not _is_not(node)]
    return {
        alias.asname: f"{statement.module}".removeprefix("mcp_trio.")
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname is not None
    }


def _is_not(node: ast.If) -> bool:
    return isinstance(node.test, ast.UnaryOp)


def test_both_tables_of_names_agree() -> None:
    """A name that only type checkers know fails when it is used, and the other way round."""
    assert _names_for_type_checkers() == mcp_trio._HOMES


def test_every_name_can_be_had() -> None:
    """All names are listed, all that are listed exist, and others are refused as usual."""
    for name in dir(mcp_trio):
        assert getattr(mcp_trio, name) is not None or name.startswith("__")
    assert not hasattr(mcp_trio, "no_such_name")
    assert {"Tool", "TextContent", "open_client", "Server"} <= set(dir(mcp_trio))
