"""Worlds for games: synthetic ones, and real tables as populations."""
