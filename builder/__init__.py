"""coldforge: a trained model in, one shared library with a C ABI out."""

__version__ = "0.1.0"
