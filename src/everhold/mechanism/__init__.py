"""How one answer is made: the sketch, the rules that teach it, the tolerance, and the mechanisms themselves."""
