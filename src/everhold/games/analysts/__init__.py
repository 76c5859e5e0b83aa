"""Analysts: honest ones, learners, overfitters, and attackers who know the population."""
