"""Resources: checks."""
