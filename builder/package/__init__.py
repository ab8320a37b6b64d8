"""The way from a verified library to a bundle in dist/."""
