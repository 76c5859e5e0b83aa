"""Reports for readers of a study: its figure and its certificate."""
