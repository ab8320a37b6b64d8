/* What LLVM calls to round to bfloat16, and zig's compiler-rt lacks: XLA's kernels of models in mixed precision do. */
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
float __truncsfbf2(float value);

/* To the nearest, of two the even one; NaN stays NaN. A bfloat16 is returned in the low half of a float's register. */
float __truncsfbf2(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = value != value ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}
#endif
