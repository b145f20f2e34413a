"""The client's half: connecting, asking, answering what a server asks, hearing of changes."""
