"""From a verified library to a bundle in dist/."""
