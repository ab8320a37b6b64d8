"""What is different between two bundles, for whoever decides whether the second one ships."""
