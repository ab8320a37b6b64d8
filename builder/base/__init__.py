"""Foundations of all other packages: errors, files, caches, processes, targets, and output on a terminal."""
