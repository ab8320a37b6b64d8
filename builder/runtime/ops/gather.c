/* Rows of a table that is stored in fewer bits, as floats. */
#include "ops/kernels.h"

#include "fused/widen.h"

/* XLA's conversion: to the nearest bound, and NaN to 0. */
static int64_t whole(float value, int wide) {
    const float bound = wide ? 0x1p63f : 0x1p31f;
    if (value != value) return 0;
    if (value >= bound) return wide ? INT64_MAX : INT32_MAX;
    if (value < -bound) return wide ? INT64_MIN : INT32_MIN;
    return (int64_t)value;
}

static int64_t index_at(const cf_gather *g, const void *indices, int64_t i) {
    int64_t found = 0;
    switch (g->index) {
    case CF_F32: return whole(((const float *)indices)[i], g->wide);
    case CF_S8: return ((const int8_t *)indices)[i];
    case CF_U8: return ((const uint8_t *)indices)[i];
    case CF_S16: return ((const int16_t *)indices)[i];
    case CF_U16: return ((const uint16_t *)indices)[i];
    case CF_S32: return ((const int32_t *)indices)[i];
    case CF_U32: found = ((const uint32_t *)indices)[i]; break;
    default: found = ((const int64_t *)indices)[i]; break;
    }
    return g->wide ? found : (int32_t)found;
}

static int64_t row_at(const cf_gather *g, const void *indices, int64_t i) {
    int64_t row = index_at(g, indices, i);
    if (g->negative && row < 0) row += g->rows;
    return max64(0, min64(row, g->rows - 1));
}

/* What is left of a row at its end goes through a copy, so that nothing past the table is read. */
#define ROW(name, element, widened)                                                                    \
    static void name(const element *from, float *to, int64_t width, vec scale) {                       \
        (void)scale;                                                                                   \
        int64_t at = 0;                                                                                \
        for (; at + CF_LANES <= width; at += CF_LANES) store(to + at, widened(from + at));             \
        if (at < width) {                                                                              \
            element rest[CF_LANES] = {0};                                                              \
            memcpy(rest, from + at, (size_t)(width - at) * sizeof(element));                           \
            store_some(to + at, widened(rest), width - at);                                            \
        }                                                                                              \
    }
#define SCALED(p) (from_int8(p) * scale)
ROW(float16_row, uint16_t, from_float16)
ROW(bfloat16_row, uint16_t, from_bfloat16)
ROW(int8_row, int8_t, SCALED)

void cf_run_gather(const cf_gather *g, const void *indices, const void *table, const float *scale, float *output) {
    const int64_t width = g->width;
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t row = row_at(g, indices, i);
        float *to = output + i * width;
        switch (g->type) {
        case CF_FLOAT32: memcpy(to, (const float *)table + row * width, (size_t)width * sizeof(float)); break;
        case CF_FLOAT16: float16_row((const uint16_t *)table + row * width, to, width, zero()); break;
        case CF_BFLOAT16: bfloat16_row((const uint16_t *)table + row * width, to, width, zero()); break;
        case CF_INT8: int8_row((const int8_t *)table + row * width, to, width, splat(scale[row])); break;
        }
    }
}
