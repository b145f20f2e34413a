"""How clients meet a server: checks."""
