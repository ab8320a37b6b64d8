"""Everything that leaves the machine beside a bundle: exports, new weights, layer versions and a template's check."""
