/* Does this processor run what was compiled for Neoverse N1 (Graviton2)? Compiled for the baseline, armv8-a.
 *
 * From the kernel's words in the auxiliary vector: user code may not read the CPU's own registers, and Lambda
 * has no /sys/devices/system/cpu/possible. Bits: Linux, arch/arm64/include/uapi/asm/hwcap.h. */
#include "abi/program.h"

#include <sys/auxv.h>

static const struct {
    unsigned bit;
    const char *missing;
} needed[] = {
#define NEED(bit, name) {bit, "this CPU lacks " name ", which the model was compiled for (Neoverse N1)"}
    NEED(0, "floating point"),
    NEED(1, "Advanced SIMD"),
    NEED(7, "CRC32"),
    NEED(8, "LSE atomics"),
    NEED(9, "half-precision floating point"),
    NEED(10, "half-precision Advanced SIMD"),
    NEED(12, "rounding multiplications (RDM)"),
    NEED(15, "release-consistent loads (RCPC)"),
    NEED(20, "dot products"),
#undef NEED
};

const char *cf_missing_cpu_feature(void) {
    const unsigned long has = getauxval(AT_HWCAP);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (!(has >> needed[i].bit & 1u)) return needed[i].missing;
    }
    return NULL;
}

/* Of floats there is one level: SVE's multipliers are NEON's, and bfloat16's answers are not float32's. */
uint32_t cf_cpu_level(void) {
    enum { I8MM = 13 }; /* of the second word */
    return getauxval(AT_HWCAP2) >> I8MM & 1u;
}

uint32_t cf_permitted_level(uint32_t level) { return level; }
