"""Messages of clients: checks."""
