"""The paper's comparison, measured: every mechanism, every attack, the same questions in one run. `make bench-paper`."""
