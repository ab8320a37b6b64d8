"""Location of the trained model, and its download: a path, a package, or an address.

Downloads are kept in the cache under their digest, and checked before each use. All of them but S3 work with Python's
standard library alone: a machine that builds in Docker may have nothing else.
"""

from builder.sources.locate import MODELS, fetched_digest, find_source, list_named_files, locate_model, locate_text_file
from builder.sources.transfer import Bounds, Show, no_progress

__all__ = [
    "MODELS",
    "Bounds",
    "Show",
    "fetched_digest",
    "find_source",
    "list_named_files",
    "locate_model",
    "locate_text_file",
    "no_progress",
]
