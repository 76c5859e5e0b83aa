"""Contests: rules, submissions, a board."""
