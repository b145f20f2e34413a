"""`mcp-trio`, the command line: see `mcp_trio.cli.commands`.

click and rich belong to the extra `cli`, and Hypothesis, which fuzzing needs, to `harness`. They
are used here and in `mcp_trio.harness`, and nowhere else in the package.
"""

import sys

NEEDED = {
    "click": ("the command line", "cli"),
    "rich": ("the command line", "cli"),
    "hypothesis": ("fuzzing", "harness"),
}


def main() -> None:
    """Run the command line of this process, and exit."""
    try:
        status = _run()
    except ModuleNotFoundError as exc:
        if exc.name not in NEEDED:
            raise
        what, extra = NEEDED[exc.name]
        text = f"mcp-trio: {what} needs {exc.name}: pip install 'mcp-trio[{extra}]'"
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
