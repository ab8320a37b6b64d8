"""Calls of a built library, from Python and under an emulator."""
