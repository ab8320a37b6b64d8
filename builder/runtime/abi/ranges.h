/*
 * Indices in feeds: XLA's kernels clamp one that is out of range, where TensorFlow raises. Part of model.c.
 */
#ifndef COLDFORGE_RANGES_H
#define COLDFORGE_RANGES_H

#include "abi/program.h"

#include <stdio.h>
#include <string.h>

/* Rounded toward zero. What an int64 cannot hold becomes its nearest end, and NaN the least. */
static int64_t whole_number(double value) {
    if (!(value >= -0x1p63)) return INT64_MIN;
    return value < 0x1p63 ? (int64_t)value : INT64_MAX;
}

/* A feed may have any alignment. */
#define CF_INDEX(dtype, type, index)                                \
    case dtype: {                                                   \
        type value;                                                 \
        memcpy(&value, data + number * sizeof value, sizeof value); \
        return index;                                               \
    }

static inline int64_t read_index(cf_dtype dtype, const uint8_t *data, size_t number) {
    switch (dtype) {
        CF_INDEX(CF_S8, int8_t, value)
        CF_INDEX(CF_U8, uint8_t, value)
        CF_INDEX(CF_S16, int16_t, value)
        CF_INDEX(CF_U16, uint16_t, value)
        CF_INDEX(CF_S32, int32_t, value)
        CF_INDEX(CF_U32, uint32_t, value)
        CF_INDEX(CF_S64, int64_t, value)
        CF_INDEX(CF_U64, uint64_t, value > INT64_MAX ? INT64_MAX : (int64_t)value)
        CF_INDEX(CF_F32, float, whole_number(value))
        CF_INDEX(CF_F64, double, whole_number(value))
    default: return 0; /* no feed is of another type */
    }
}

/* The number of the first element of `elements` that is out of range; `elements` where none is. */
static size_t find_outside(const cf_range *range, const uint8_t *data, size_t elements) {
    for (size_t start = range->first; start < elements; start += range->period) {
        for (size_t number = start; number < start + range->count; number++) {
            const int64_t index = read_index(range->dtype, data, number);
            if (index < range->minimum || index > range->maximum) return number;
        }
    }
    return elements;
}

static cf_status check_ranges(const cf_program *program, const cf_feed *feeds, char *error, size_t capacity) {
    for (const cf_range *range = program->ranges; range < program->ranges + program->range_count; range++) {
        const uint8_t *data = feeds[range->feed].data;
        const size_t number = find_outside(range, data, range->elements);
        if (number == range->elements) continue;
        char wanted[64];
        const long long minimum = range->minimum, maximum = range->maximum;
        if (minimum == INT64_MIN) {
            snprintf(wanted, sizeof wanted, "at most %lld", maximum);
        } else if (maximum == INT64_MAX) {
            snprintf(wanted, sizeof wanted, "at least %lld", minimum);
        } else {
            snprintf(wanted, sizeof wanted, "from %lld to %lld", minimum, maximum);
        }
        snprintf(error, capacity, "feed %.100s: element %zu must be %s, not %lld", program->feeds[range->feed].name,
                 number, wanted, (long long)read_index(range->dtype, data, number));
        return CF_ERR_RANGE;
    }
    return CF_OK;
}

#endif
