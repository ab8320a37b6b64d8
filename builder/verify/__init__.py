"""coldforge builder."""
