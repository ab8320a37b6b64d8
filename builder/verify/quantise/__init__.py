"""Smaller weights and activations: their types, their ranges, and their cost in accuracy."""
