"""A gate: is a candidate better than the incumbent, on the same sealed cases? One bit a candidate."""
