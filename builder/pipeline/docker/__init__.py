"""Builds in a container: the choice of a route, and the run."""
