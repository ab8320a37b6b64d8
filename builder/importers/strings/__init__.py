"""Strings in front of a graph: what the function computes itself, so that the library sees numbers alone."""
