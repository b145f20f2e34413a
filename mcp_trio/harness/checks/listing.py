"""Lists: pages, order and how long they may be kept: checks."""
