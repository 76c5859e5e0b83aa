"""Engines: where questions meet private rows. One protocol, one conformance suite."""
