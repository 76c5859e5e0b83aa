"""Engines evaluate questions on private rows: one protocol, one conformance suite."""
