/* Fetches whose size the data decides. Part of the libraries that have some: see CF_DYNAMIC. */
#include "abi/program.h"

#include <stdio.h>
#include <string.h>

/* Write "[3, 2]" to `text`. */
static void write_shape(char *text, size_t capacity, const int32_t *sizes, uint32_t rank) {
    size_t used = 0;
    for (uint32_t i = 0; i < rank && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%d", i != 0 ? ", " : "[", (int)sizes[i]);
    }
    if (used < capacity) snprintf(text + used, capacity - used, "]");
}

cf_status cf_trim(const cf_program *program, const cf_context *context, char *error, size_t capacity) {
    for (size_t i = 0; i < program->dynamic_count; i++) {
        const cf_dynamic *dynamic = &program->dynamic[i];
        const cf_port *fetch = &program->fetches[dynamic->fetch], *shape = fetch + 1;
        const int32_t *sizes = (const int32_t *)(cf_start_of(context, shape->space) + shape->offset);
        size_t used = dynamic->item;
        for (uint32_t d = 0; d < dynamic->rank; d++) {
            if (sizes[d] < 0 || sizes[d] > dynamic->most[d]) {
                char have[96], most[96];
                write_shape(have, sizeof have, sizes, dynamic->rank);
                write_shape(most, sizeof most, dynamic->most, dynamic->rank);
                snprintf(error, capacity, "fetch %s has the shape %s here; at most %s is taken", fetch->name, have,
                         most);
                return CF_ERR_SIZE;
            }
            used *= (size_t)sizes[d];
        }
        memset(context->arena + fetch->offset + used, 0, fetch->size - used);
    }
    return CF_OK;
}
