"""The Lambda function: an image in, the model's answer out. No NumPy, nothing that starts slowly."""
