"""Differences between two bundles, for a decision on whether the second one ships."""
