"""`mcp-trio`, the command line: see `mcp_trio.cli.commands`.

click and rich are used here and nowhere else in the package, and belong to its extra `cli`.
"""

import sys

NEEDED = ("click", "rich")


def main() -> None:
    """Run the command line of this process, and exit."""
    try:
        status = _run()
    except ModuleNotFoundError as exc:
        if exc.name not in NEEDED:
            raise
        text = f"mcp-trio: the command line needs {exc.name}: pip install 'mcp-trio[cli]'"
        print(text, file=sys.stderr)  # noqa: T201 (there is nothing better to print with)
        status = 2
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def _run() -> int:
    import click

    from mcp_trio.cli.commands import cli
    from mcp_trio.cli.ending import Stopped

    try:
        return cli.main(prog_name="mcp-trio", standalone_mode=False) or 0
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except Stopped as exc:
        return exc.status
