"""Many inputs at once: a list of them in S3, AWS Step Functions and the function, and one table of answers."""
