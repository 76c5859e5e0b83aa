"""How questions are measured: one file for each kind."""
