/* The fused kernels by cf_cpu_level(). Not in cpu_x86_64.c, so that a program without layers can leave them out. */
#include "abi/program.h"

const cf_fused *const cf_fused_tables[] = {&cf_fused_v3, &cf_fused_v4, &cf_fused_v4};
