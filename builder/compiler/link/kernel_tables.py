"""The C source of the tables in which a program finds its kernels, with one entry for each ``cf_cpu_level()``."""

from __future__ import annotations

from builder.base.targets import Target

_HEAD = '#include "abi/program.h"\n\n'


def format_fused_tables(target: Target) -> str:
    """Format ``cf_fused_tables``: for each of the target's levels, its copy of the fused kernels."""
    declared = ", ".join(copy.table for copy in target.fused_copies)
    entries = ", ".join(f"&{level.fused.table}" for level in target.levels)
    return f"{_HEAD}extern const cf_fused {declared};\n\nconst cf_fused *const cf_fused_tables[] = {{{entries}}};\n"


def format_attention_tables(target: Target) -> str:
    """Format ``cf_attention_tables``: for each of the target's levels, its kernel of attention."""
    arguments = "cf_context *context, const cf_attention *attention, const cf_attention_data *data"
    declared = "".join(f"void {copy.table}({arguments});\n" for copy in target.attention_copies)
    entries = ", ".join(level.attention.table for level in target.levels)
    return f"{_HEAD}{declared}\nconst cf_attention_layer cf_attention_tables[] = {{{entries}}};\n"


def format_integer_tables(target: Target) -> str:
    """Format ``cf_integer_tables``: for each of the target's levels, its kernel of integer sums."""
    arguments = "cf_context *context, const cf_layer *layer, const cf_layer_data *data"
    declared = "".join(f"void {copy.table}({arguments});\n" for copy in target.integer_copies)
    entries = ", ".join(level.integer.table for level in target.levels)
    return f"{_HEAD}{declared}\nconst cf_integer_layer cf_integer_tables[] = {{{entries}}};\n"
