"""Building in a container: choose where, and run the build there."""
