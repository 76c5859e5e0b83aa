"""The record of rounds, its replay and its audit."""
