"""The mechanisms, and their parts: the sketch, the rules that update it, and the tolerance."""
