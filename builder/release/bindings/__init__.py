"""Packages for other languages, generated from a bundle, one for each model and language."""
