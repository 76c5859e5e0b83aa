"""Learners that talk to labels only through questions."""
