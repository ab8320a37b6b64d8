"""Inputs that a model is run on: the golden ones, and a user's own images, recordings and texts."""
