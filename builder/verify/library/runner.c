/*
 * Runs libmodel.so where Python does not: a process of the library's own architecture that loads it and makes
 * the calls it reads from standard input. builder/verify/library/remote_library.py is the other end and says what is asked.
 *
 * Both ends are little-endian and 64-bit. A request is `request`, then for each slot its `slot` and, unless the
 * pointer is null, its block; the answer is `answer`, the text, and the blocks as they are after the call.
 */
#define _GNU_SOURCE
#include "library.h"

#include <string.h>

enum { MOST_SLOTS = 64, ALIGNMENT = 64 };
enum { OP_DESCRIBE, OP_OPEN, OP_RUN, OP_FLAT, OP_CLOSE, OP_HAS_FLAT, OP_RESET, OP_SIGNATURE };

typedef struct {
    uint32_t op, feeds, fetches, feed_count, fetch_count, has_model;
} request;

typedef struct {
    uint64_t block, start, size; /* bytes of the block; where in it the data begins; the size that is claimed */
    uint32_t phase, null;        /* the block's address modulo 64; pass a null pointer */
} slot;

typedef struct {
    int32_t status;
    uint32_t text;
} answer;

/* Ends the process at the end of input: whoever asked has gone. */
static void receive(void *data, size_t size) {
    if (size != 0 && fread(data, 1, size, stdin) != size) exit(0);
}

static void reply(int32_t status, const char *text) {
    const answer head = {status, text != NULL ? (uint32_t)strlen(text) : 0};
    fwrite(&head, sizeof head, 1, stdout);
    if (head.text != 0) fwrite(text, 1, head.text, stdout);
}

/* As many arguments as there may be: those past what run() takes are ignored by the calling conventions of Linux. */
static int call_flat(const cf_feed *all) {
#define A(i) all[i].data, all[i].size
#define A8(i) A(i), A(i + 1), A(i + 2), A(i + 3), A(i + 4), A(i + 5), A(i + 6), A(i + 7)
    return ((int (*)(const void *, size_t, ...))function("run"))(A8(0), A8(8), A8(16), A8(24), A8(32), A8(40), A8(48),
                                                                 A8(56));
#undef A8
#undef A
}

static void run(const request *asked, cf_model *model) {
    static cf_feed feeds[MOST_SLOTS];
    static cf_fetch fetches[MOST_SLOTS];
    static slot slots[MOST_SLOTS];
    static uint8_t *blocks[MOST_SLOTS], *allocations[MOST_SLOTS];
    const uint32_t count = asked->feeds + asked->fetches;
    cf_feed all[MOST_SLOTS] = {{NULL, 0}};
    memset(feeds, 0, sizeof feeds);
    memset(fetches, 0, sizeof fetches);
    if (count >= MOST_SLOTS) {
        fprintf(stderr, "%u inputs and outputs are more than can be verified here\n", count);
        exit(EXIT_REFUSED);
    }
    for (uint32_t i = 0; i < count; i++) {
        receive(&slots[i], sizeof slots[i]);
        allocations[i] = malloc(slots[i].block + 2 * ALIGNMENT);
        if (allocations[i] == NULL) exit(4);
        const uintptr_t aligned = ((uintptr_t)allocations[i] + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
        blocks[i] = (uint8_t *)aligned + slots[i].phase;
        receive(blocks[i], slots[i].block);
        uint8_t *data = slots[i].null ? NULL : blocks[i] + slots[i].start;
        all[i] = (cf_feed){data, slots[i].size};
        if (i < asked->feeds) {
            feeds[i] = all[i];
        } else {
            fetches[i - asked->feeds] = (cf_fetch){data, slots[i].size};
        }
    }
    int32_t status;
    const char *text = "";
    if (asked->op == OP_FLAT) {
        status = call_flat(all);
    } else {
        status = (int32_t)CALL(cf_run)(model, feeds, asked->feed_count, fetches, asked->fetch_count);
        text = CALL(cf_last_error)(model);
    }
    reply(status, text);
    for (uint32_t i = 0; i < count; i++) {
        fwrite(blocks[i], 1, slots[i].block, stdout);
        free(allocations[i]);
    }
}

int main(int argc, char **argv) {
    load_library(argc > 1 ? argv[1] : NULL);
    cf_model *model = NULL;
    for (;;) {
        request asked;
        fflush(stdout);
        receive(&asked, sizeof asked);
        switch (asked.op) {
        case OP_DESCRIBE: reply((int32_t)CALL(cf_abi_version)(), CALL(cf_describe)()); break;
        case OP_OPEN: {
            const cf_status status = CALL(cf_open)(0, &model);
            reply((int32_t)status, CALL(cf_last_error)(NULL));
            break;
        }
        case OP_HAS_FLAT: reply(dlsym(library, "run") != NULL, ""); break;
        case OP_RESET: reply((int32_t)CALL(cf_reset)(model), CALL(cf_last_error)(model)); break;
        case OP_SIGNATURE: { /* whose name follows, of feed_count bytes */
            char name[256] = "";
            if (asked.feed_count >= sizeof name) exit(4);
            receive(name, asked.feed_count);
            reply((int32_t)CALL(cf_set_signature)(model, name), CALL(cf_last_error)(model));
            break;
        }
        case OP_CLOSE:
            CALL(cf_close)(asked.has_model ? model : NULL);
            reply(0, "");
            break;
        default: run(&asked, model);
        }
    }
}
