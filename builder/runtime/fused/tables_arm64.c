/* The fused kernels by cf_cpu_level(). Not in cpu_arm64.c, so that a program without layers can leave them out. */
#include "abi/program.h"

const cf_fused *const cf_fused_tables[] = {&cf_fused_n1};
