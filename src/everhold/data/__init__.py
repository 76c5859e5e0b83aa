"""Tables, schemas, files and engines: how rows are read, and the private sample."""
