"""Gates and scores inside other tools: one file a host, imported by name, and the host with it."""
