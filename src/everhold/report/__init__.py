"""What readers of a study see: its figure and its certificate."""
