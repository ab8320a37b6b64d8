"""What every other package builds on: errors, files, caches, processes, targets, and what people see on a terminal."""
