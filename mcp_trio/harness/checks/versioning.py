"""The modern era: discovery, versions and capabilities in every request: checks."""
