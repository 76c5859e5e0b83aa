"""Priors: public rows, or a way to draw them, chosen without looking at the private rows."""
