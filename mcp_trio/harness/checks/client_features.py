"""What clients do with tools, resources and prompts: checks."""
