"""Images before a model's first number and labels after its last, as settings for the function."""
