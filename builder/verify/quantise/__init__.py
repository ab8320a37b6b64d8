"""Smaller weights and activations: which types, over which ranges, and what they cost in accuracy."""
