"""Benchmarks: outside the package, with stable names. `make bench` runs them all."""
