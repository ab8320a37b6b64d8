"""The Lambda function, from an image or other input to the model's answer, without NumPy or any slow import."""
