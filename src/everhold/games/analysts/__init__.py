"""Who asks: honest analysts, learners, and attackers who know the population. One file each, or a few that belong together."""
