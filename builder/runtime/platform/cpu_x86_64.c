/* Does this processor run x86-64-v3 code, or even v4, with VNNI, with AMX? Compiled for the baseline x86-64.
 *
 * By hand, with cpuid and xgetbv: __builtin_cpu_supports needs a symbol that a shared library without
 * the compiler's runtime does not have. Feature bits: Intel SDM vol. 2A, CPUID; the list is the
 * x86-64-v3 and v4 levels of the System V ABI. */
#include "abi/program.h"

#include <cpuid.h>

static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

#define NEED(word, bit, name) \
    if (!((word) >> (bit)&1u)) return "this CPU lacks " name ", which the model was compiled for (x86-64-v3)"

const char *cf_missing_cpu_feature(void) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return "this CPU does not report its features";
    NEED(c, 0, "SSE3");
    NEED(c, 9, "SSSE3");
    NEED(c, 12, "FMA");
    NEED(c, 19, "SSE4.1");
    NEED(c, 20, "SSE4.2");
    NEED(c, 22, "MOVBE");
    NEED(c, 23, "POPCNT");
    NEED(c, 27, "OSXSAVE");
    NEED(c, 28, "AVX");
    NEED(c, 29, "F16C");
    if ((read_xcr0() & 6u) != 6u) return "the operating system does not keep this CPU's AVX registers";
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return "this CPU lacks AVX2, which the model was compiled for";
    NEED(b, 3, "BMI1");
    NEED(b, 5, "AVX2");
    NEED(b, 8, "BMI2");
    if (!__get_cpuid(0x80000001u, &a, &b, &c, &d)) return "this CPU lacks LZCNT, which the model was compiled for";
    NEED(c, 5, "LZCNT");
    return NULL;
}

uint32_t cf_cpu_level(void) {
    /* AVX512F, DQ, CD, BW and VL. */
    const uint32_t v4 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & v4) != v4) return 0;
    if ((read_xcr0() & 0xe6u) != 0xe6u) return 0; /* the system keeps the masks and the wide registers */
    if (!(c >> 11 & 1u)) return 1; /* AVX512_VNNI */
    const uint32_t amx = 1u << 24 | 1u << 25; /* AMX-TILE, AMX-INT8 */
    return (d & amx) == amx && (read_xcr0() & 0x60000u) == 0x60000u ? 3 : 2;
}

/* Linux gives a process AMX's registers only if it asks: Documentation/arch/x86/xstate.rst. */
uint32_t cf_permitted_level(uint32_t level) {
    if (level < 3) return level;
    enum { ARCH_PRCTL = 158, ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(ARCH_PRCTL), "D"(ARCH_REQ_XCOMP_PERM), "S"(XTILEDATA)
                     : "rcx", "r11", "memory");
    return result == 0 ? level : 2;
}
