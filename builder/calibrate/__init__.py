"""Which numbers come to a layer: measured on pictures, for ``[activations] type = "int8"``."""
