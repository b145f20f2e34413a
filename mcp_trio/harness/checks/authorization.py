"""Authorization: what a protected server says of itself: checks."""
