"""A bundle on this machine as in Lambda, without Docker."""
