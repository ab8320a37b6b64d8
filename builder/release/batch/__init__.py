"""Batch inference: a list of inputs in S3, answered by Step Functions and the function, and one table of answers."""
