"""Who asks: honest analysts, learners, and attackers who know the population."""
