"""The Python package's Predictor in several processes."""
