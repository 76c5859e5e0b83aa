"""One adaptive session: its settings, its turns, its life on disk."""
