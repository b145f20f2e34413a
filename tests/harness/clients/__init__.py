"""Foreign clients that do what the demo client does: use all that a server has, once, and leave."""
