"""Mechanisms for games: everhold, the paper's mechanism and the baselines, each set for a known number of rounds."""
