"""What stands before a model's first number and after its last, as settings that the function works by."""

from builder.front.found import Found, find

__all__ = ["Found", "find"]
