"""The linking of generated C and XLA's kernels into libmodel.so."""
