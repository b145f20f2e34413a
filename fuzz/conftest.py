"""The same settings for pytest, and so for HypoFuzz."""

from fuzz.profiles import load

load()
