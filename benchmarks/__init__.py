"""``make -f benchmarks/Makefile bench``: coldforge's libraries beside the runtimes they replace, in one run."""
