"""A study behind a server, from Python."""
