"""Theorems as pure functions of numbers: no clock, no data, no coins."""
