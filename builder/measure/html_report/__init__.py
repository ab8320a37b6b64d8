"""Pages of HTML that say all of a model or of two bundles: each one file, which loads nothing and sends nothing."""
