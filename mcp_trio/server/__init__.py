"""The server's half: what is offered, who asks, and how each request is answered."""
