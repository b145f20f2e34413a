"""How clients answer a server that asks: checks."""
