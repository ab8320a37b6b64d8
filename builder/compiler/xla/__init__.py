"""The calls to XLA's compiler, and the reading of its results."""
