/* The one table of each kind of kernels; builder/compiler/link/shared_library.py makes those of other targets. The linker drops what no program names. */
#include "abi/program.h"

extern const cf_fused cf_fused_wasm;

const cf_fused *const cf_fused_tables[] = {&cf_fused_wasm};

void cf_attention_wasm(cf_context *context, const cf_attention *attention, const cf_attention_data *data);

const cf_attention_layer cf_attention_tables[] = {cf_attention_wasm};

void cf_integer_wasm(cf_context *context, const cf_layer *layer, const cf_layer_data *data);

const cf_integer_layer cf_integer_tables[] = {cf_integer_wasm};

void cf_trees_wasm(cf_context *context, const cf_trees *trees, const cf_trees_data *data);

const cf_trees_layer cf_trees_tables[] = {cf_trees_wasm};
