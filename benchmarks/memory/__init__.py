"""``make bench-memory``: what a million requests of each example cost and how long each takes, by memory."""
