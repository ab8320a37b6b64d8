"""From generated C and XLA's kernels to libmodel.so."""
