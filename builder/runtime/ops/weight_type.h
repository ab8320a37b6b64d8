/* The type of weights in the library. */
#ifndef COLDFORGE_WEIGHT_TYPE_H
#define COLDFORGE_WEIGHT_TYPE_H

/* Of a layer or of a table that rows are gathered from; see builder/compiler/lower/compress.py. What is computed with them is
 * float32, but for CF_INTEGER's sums. */
typedef enum { CF_FLOAT32, CF_FLOAT16, CF_BFLOAT16, CF_INT8 } cf_weight_type;

#endif
