"""A test and a benchmark program for one model, as tfcompile's ``tf_library`` makes them."""
