"""Tasks (experimental, 2025-11-25): checks."""
