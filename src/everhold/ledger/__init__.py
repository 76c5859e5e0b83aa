"""What happened, for ever: the record of rounds, its replay and its audit."""
