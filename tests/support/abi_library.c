/* A real model behind the C ABI, small enough to know every answer. The description and the macros come from
 * abi_library.py.
 *
 * Pictures:  image uint8 [B,H,W,C] -> light float32 [B,2] (mean brightness, and 1 minus it), level float32 [B,1]
 *            (mean brightness, 0..255), pixels uint8 [B,H,W,C] (what came in)
 * Tensors:   a float32 [2,3], n int64 [2]  ->  product float32 [2,3] (a times its row's n), total float64 []
 * Echo:      every fetch is the feed of its place
 * Sized:     the same, in any size
 * Sentences: ids int64 [B,L] -> vector float32 [B,N] (the first N ids, over their Euclidean length if NORMALISED)
 * Finder:    image uint8 [B,H,W,1] -> boxes float32 [B,1,4] (left, top, right, bottom of what is dark), scores float32
 *            [B,1] (1 if anything is), parts uint8 [B,H,W] (1 where it is)
 * Counter:   x float32 [B]  ->  calls int64 [B] (runs since it was opened or reset, this one included)
 *
 * A first pixel of value POISON makes the picture model fail, as a compiled kernel may.
 */
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#include "model.h"
#pragma GCC visibility pop

struct cf_model {
    const char *error;
    int64_t calls;
};

static const size_t feed_sizes[] = FEED_SIZES, fetch_sizes[] = FETCH_SIZES;
#define FEEDS (sizeof feed_sizes / sizeof *feed_sizes)
#define FETCHES (sizeof fetch_sizes / sizeof *fetch_sizes)

uint32_t cf_abi_version(void) { return ABI; }

const char *cf_describe(void) {
    return
#include "description.inc"
        ;
}

cf_status cf_open(uint32_t threads, cf_model **model) {
    (void)threads;
    if (OPEN_STATUS != CF_OK) return (cf_status)OPEN_STATUS;
    *model = calloc(1, sizeof **model);
    return *model != NULL ? CF_OK : CF_ERR_MEMORY;
}

cf_status cf_close(cf_model *model) {
    free(model);
    return CF_OK;
}

cf_status cf_reset(cf_model *model) {
    model->calls = 0;
    return CF_OK;
}

const char *cf_last_error(const cf_model *model) {
    return model == NULL ? "this processor has no AVX2" : model->error;
}

/* Two pixels: one alone may be so by chance. */
static int poisoned(const uint8_t *image) { return image[0] == POISON && image[1] == POISON; }

#if COUNTER
static void compute(cf_model *model, const cf_feed *feeds, const cf_fetch *fetches) {
    (void)feeds;
    model->calls++;
    memcpy(fetches[0].data, &model->calls, sizeof model->calls);
}
#elif ECHO
static void compute(cf_model *model, const cf_feed *feeds, const cf_fetch *fetches) {
    (void)model;
    for (size_t i = 0; i < FEEDS; i++) memcpy(fetches[i].data, feeds[i].data, feeds[i].size);
}
#elif FINDER
static void compute(cf_model *model, const cf_feed *feeds, const cf_fetch *fetches) {
    (void)model;
    size_t each = feed_sizes[0] / BATCH;
    for (size_t i = 0; i < BATCH; i++) {
        const uint8_t *pixels = (const uint8_t *)feeds[0].data + i * each;
        uint8_t *part = (uint8_t *)fetches[2].data + i * each;
        float *box = (float *)fetches[0].data + 4 * i, *score = (float *)fetches[1].data + i;
        box[0] = box[1] = 1e9f;
        box[2] = box[3] = 0;
        for (size_t k = 0; k < each; k++) {
            part[k] = pixels[k] < 128;
            if (!part[k]) continue;
            float x = (float)(k % WIDTH), y = (float)(k / WIDTH);
            if (x < box[0]) box[0] = x;
            if (y < box[1]) box[1] = y;
            if (x >= box[2]) box[2] = x + 1;
            if (y >= box[3]) box[3] = y + 1;
        }
        *score = box[2] > 0;
    }
}
#elif SENTENCES
static void compute(cf_model *model, const cf_feed *feeds, const cf_fetch *fetches) {
    (void)model;
    size_t length = feed_sizes[0] / sizeof(int64_t) / BATCH, size = fetch_sizes[0] / sizeof(float) / BATCH;
    for (size_t i = 0; i < BATCH; i++) {
        const int64_t *ids = (const int64_t *)feeds[0].data + i * length;
        float *vector = (float *)fetches[0].data + i * size, squares = 0;
        for (size_t k = 0; k < size; k++) {
            vector[k] = (float)ids[k];
            squares += vector[k] * vector[k];
        }
        float norm = NORMALISED && squares > 0 ? __builtin_sqrtf(squares) : 1;
        for (size_t k = 0; k < size; k++) vector[k] /= norm;
    }
}
#elif PICTURES
static void compute(cf_model *model, const cf_feed *feeds, const cf_fetch *fetches) {
    (void)model;
    size_t each = feed_sizes[0] / BATCH;
    for (size_t i = 0; i < BATCH; i++) {
        const uint8_t *pixels = (const uint8_t *)feeds[0].data + i * each;
        double sum = 0;
        for (size_t k = 0; k < each; k++) sum += pixels[k];
        float mean = (float)(sum / (double)each), light[2] = {mean / 255, 1 - mean / 255};
        memcpy((float *)fetches[0].data + 2 * i, light, sizeof light);
        memcpy((float *)fetches[1].data + i, &mean, sizeof mean);
    }
    memcpy(fetches[2].data, feeds[0].data, feed_sizes[0]);
}
#else
static void compute(cf_model *model, const cf_feed *feeds, const cf_fetch *fetches) {
    (void)model;
    float a[6];
    int64_t n[2];
    double total = 0;
    memcpy(a, feeds[0].data, sizeof a);
    memcpy(n, feeds[1].data, sizeof n);
    for (int i = 0; i < 6; i++) total += a[i] *= (float)n[i / 3];
    memcpy(fetches[0].data, a, sizeof a);
    memcpy(fetches[1].data, &total, sizeof total);
}
#endif

static int is_size(size_t size, size_t wanted) { return SIZED ? size >= wanted : size == wanted; }

cf_status cf_run(cf_model *model, const cf_feed *feeds, size_t feed_count, const cf_fetch *fetches,
                 size_t fetch_count) {
    int bad = feed_count != FEEDS || fetch_count != FETCHES;
    for (size_t i = 0; !bad && i < FEEDS; i++) bad = feeds[i].data == NULL || !is_size(feeds[i].size, feed_sizes[i]);
    for (size_t i = 0; !bad && i < FETCHES; i++)
        bad = fetches[i].data == NULL || !is_size(fetches[i].size, SIZED ? feeds[i].size : fetch_sizes[i]);
    if (bad) {
        model->error = "a count, a size or a pointer is wrong";
        return CF_ERR_ARGUMENT;
    }
    if (PICTURES && poisoned(feeds[0].data)) {
        model->error = "the kernel fell over";
        return CF_ERR_KERNEL;
    }
    compute(model, feeds, fetches);
    return CF_OK;
}
