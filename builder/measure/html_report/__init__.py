"""Pages of HTML about one model or two bundles. Each is one file, which loads nothing and sends nothing."""
