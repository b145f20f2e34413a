"""The legacy handshake: checks."""
