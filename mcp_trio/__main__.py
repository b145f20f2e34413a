"""`python -m mcp_trio` is `mcp-trio`."""

from mcp_trio.cli import main

if __name__ == "__main__":
    main()
