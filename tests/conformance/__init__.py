"""Conformance: whole lists of what people export, built as they are, each checked against TensorFlow."""
