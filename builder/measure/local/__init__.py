"""Run a bundle on this machine as Lambda would, without Docker."""
