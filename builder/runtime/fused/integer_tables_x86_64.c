/* Integer GEMM by cf_cpu_level(); compiled only where a program has layers of CF_INTEGER. */
#include "abi/program.h"

const cf_integer_layer cf_integer_tables[] = {cf_integer_v3, cf_integer_v4, cf_integer_vnni};
