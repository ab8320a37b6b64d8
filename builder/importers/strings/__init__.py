"""Graphs that begin with strings: the function computes on the strings, and the library sees only numbers."""
