/* The one table of fused kernels; see tables_x86_64.c. */
#include "../program.h"

extern const cf_fused cf_fused_wasm;

const cf_fused *const cf_fused_tables[] = {&cf_fused_wasm};
