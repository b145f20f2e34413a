"""The stdio transport: lines, streams and the process: checks."""
