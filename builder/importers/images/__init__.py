"""What stands before a model's first number and after its last, as settings that the function works by."""
