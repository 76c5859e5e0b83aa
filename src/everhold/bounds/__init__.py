"""Bounds as pure functions of numbers, without clock, data or coins."""
