/* Memory for a program's buffers, of a model and of the threads that run parts of a batch. */
#define _GNU_SOURCE
#include "abi/program.h"

#include <stdlib.h>
#ifndef __wasm__ /* WebAssembly has no pages to ask for */
#include <sys/mman.h>
#endif

#define ALIGNMENT 64u
#define PAGE ((size_t)4 << 10)
#define HUGE_PAGE ((size_t)2 << 20)

/*
 * Large arenas in huge pages, where the system gives them on request: the first inference then meets one fault for
 * every 512 of the others, which is worth 6 of 74 ms on a network with 17 MB. The odd end stays in small pages.
 *
 * What every run touches is touched here, a byte of each page: the faults would be the first caller's, who waits for
 * them, and whom Lambda often gives less of a processor than a function that starts.
 */
uint8_t *cf_arena_new(size_t size, size_t touched) {
    size_t alignment = ALIGNMENT;
#ifdef MADV_HUGEPAGE
    if (size >= 2 * HUGE_PAGE) alignment = HUGE_PAGE;
#endif
    uint8_t *arena = aligned_alloc(alignment, (size + alignment) / alignment * alignment);
    if (arena == NULL) return NULL;
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE) (void)madvise(arena, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* may be refused */
#endif
    for (size_t at = 0; at < touched; at += PAGE) ((volatile uint8_t *)arena)[at] = 0;
    return arena;
}
