"""The worlds: one file each, or a few that belong together."""
