"""A model in formats that others read: nobody is locked in."""

from builder.export.folder import Export, export_model

__all__ = ["Export", "export_model"]
