"""The Model Context Protocol on Trio."""
