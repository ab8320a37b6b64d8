"""Measurements of a model: the time of its steps, and the algorithms that are the fastest on this machine."""
