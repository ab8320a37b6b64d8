/* Where the inputs of an output pixel lie, and the same in parts whose weights stay in the first-level cache. */
#ifndef COLDFORGE_REACH_H
#define COLDFORGE_REACH_H

#include "fused/fused.h"
#include "fused/vector.h"

/* All that is multiplied for a pixel: `segments` runs of `length`, each at an offset from the pixel's first input. */
typedef struct {
    int64_t depth, segments, length;
    int64_t offsets[CF_MAX_TAPS];
} cf_reach;

/* A part of the depth, from `done` on: `segments` runs of `length` input channels. */
typedef struct {
    int64_t done, depth, segments, length, moved;
    const int64_t *offsets;
} cf_part;

/* The part after this one, of about `most`: whole segments, or equal parts of one. 0: there is none. */
INLINE int next_part(const cf_reach *reach, int64_t most, cf_part *part) {
    part->done += part->depth;
    if (part->done == reach->depth) return 0;
    const int64_t segment = part->done / reach->length, from = part->done % reach->length;
    const int64_t parts = ceil_div(reach->length, most);
    if (parts > 1) {
        part->segments = 1;
        part->length = min64(ceil_div(reach->length, parts), reach->length - from);
        part->moved = reach->offsets[segment] + from;
        part->offsets = &part->moved;
    } else {
        part->segments = min64(most / reach->length, reach->segments - segment);
        part->length = reach->length;
        part->offsets = reach->offsets + segment;
    }
    part->depth = part->segments * part->length;
    return 1;
}

#endif
