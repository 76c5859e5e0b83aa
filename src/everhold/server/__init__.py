"""The data stays with its keeper: who may ask from elsewhere."""
