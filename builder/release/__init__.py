"""What leaves the house beside a bundle: exports, new weights, layer versions, and the check of a template."""
