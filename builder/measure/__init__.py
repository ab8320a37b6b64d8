"""Where the time of a model goes, and which algorithms are the fastest here."""
