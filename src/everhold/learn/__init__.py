"""Models and private labels: test sets that score models, and learners that use labels only through questions."""
