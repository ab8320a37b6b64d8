/* Non-maximum suppression with TensorFlow's answers: the same boxes in the same order, of equal scores too. */
#include <string.h>

#include "ops/kernels.h"

/* A box that may be kept. */
typedef struct {
    float score;
    int32_t box;
} candidate;

static int below(const candidate *a, const candidate *b, int by_box) {
    return a->score < b->score || (by_box && a->score == b->score && a->box > b->box);
}

/*
 * A heap in the order of libstdc++'s std::priority_queue, which TensorFlow takes equal scores out of: what is added
 * rises from the end; where the first one was, the greater child of each level moves up, the right one if they are
 * equal, and the last one rises from the hole that this leaves. by_box: of equal scores the lower box is greater.
 */
static void rise(candidate *heap, int64_t at, candidate x, int by_box) {
    while (at > 0 && below(&heap[(at - 1) / 2], &x, by_box)) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = x;
}

static candidate take(candidate *heap, int64_t count, int by_box) {
    const candidate first = heap[0], last = heap[count - 1];
    int64_t hole = 0;
    for (int64_t child = 2; child <= count - 1; child = 2 * hole + 2) {
        if (child == count - 1 || below(&heap[child], &heap[child - 1], by_box)) child--;
        heap[hole] = heap[child];
        hole = child;
    }
    rise(heap, hole, last, by_box);
    return first;
}

/* Corners in order. */
typedef struct {
    float top, left, bottom, right, area;
} box;

static inline float least(float a, float b) { return b < a ? b : a; }
static inline float most(float a, float b) { return a < b ? b : a; }

static box box_of(const float *corners) {
    box b = {least(corners[0], corners[2]), least(corners[1], corners[3]), most(corners[0], corners[2]),
             most(corners[1], corners[3]), 0};
    b.area = (b.bottom - b.top) * (b.right - b.left);
    return b;
}

/* Intersection over union. */
static float overlap(const box *a, const box *b) {
    if (a->area <= 0 || b->area <= 0) return 0;
    const float height = most(least(a->bottom, b->bottom) - most(a->top, b->top), 0);
    const float width = most(least(a->right, b->right) - most(a->left, b->left), 0);
    const float both = height * width;
    const float sum = a->area + b->area;
    return both / (sum - both);
}

/* e to the power of x <= 0, rounded once from float64, or NaN. */
static float exponential(float x) {
    if (!(x > -110.0f)) return x <= -110.0f ? 0 : x;
    const double ln2 = 0.693147180559945309;
    const int32_t power = (int32_t)(x / ln2 - 0.5);
    const double rest = x - power * ln2;
    double sum = 1;
    for (int i = 13; i > 0; i--) sum = 1 + sum * rest / i;
    const int64_t bits = (int64_t)(1023 + power) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return (float)(sum * scale);
}

/* What a score is multiplied by for one overlap with a kept box. */
static float weight(const cf_nms *n, float similarity) {
    if (n->decay < 0) return exponential(n->decay * similarity * similarity);
    return similarity <= n->overlap ? 1 : 0;
}

void cf_run_nms(const cf_nms *n, const float *boxes, const float *scores, int32_t *indices, float *kept, int32_t *count,
                void *scratch) {
    candidate *heap = scratch;
    int32_t *seen = (int32_t *)(heap + n->boxes); /* by box, how many of the kept ones it has been compared with */
    box *chosen = (box *)(seen + n->boxes);
    int64_t waiting = 0, found = 0;
    for (int64_t i = 0; i < n->boxes; i++) {
        seen[i] = 0;
        if (scores[i] > n->score) rise(heap, waiting++, (candidate){scores[i], (int32_t)i}, 1);
    }
    while (found < n->size && waiting > 0) {
        candidate next = take(heap, waiting--, 1);
        const float score = next.score;
        const box own = n->overlaps ? (box){0} : box_of(boxes + 4 * next.box);
        int suppressed = 0;
        for (int64_t j = found - 1; j >= seen[next.box] && !suppressed; j--) {
            const float similarity = n->overlaps ? boxes[next.box * n->boxes + indices[j]] : overlap(&own, &chosen[j]);
            next.score *= weight(n, similarity);
            suppressed = n->decay == 0 && similarity > n->overlap;
            if (next.score <= n->score) break;
        }
        seen[next.box] = (int32_t)found;
        if (suppressed) continue;
        if (next.score == score) {
            indices[found] = next.box;
            kept[found] = score;
            chosen[found++] = own;
        } else if (next.score > n->score) {
            rise(heap, waiting++, next, 1);
        }
    }
    *count = (int32_t)found;
    memset(indices + found, 0, (size_t)(n->size - found) * sizeof *indices);
    memset(kept + found, 0, (size_t)(n->size - found) * sizeof *kept);
}

/* A box that was kept, of a class. */
typedef struct {
    int32_t box, class;
} result;

/* A picture's boxes that are kept: the largest score first in `order`, whose boxes are places in `results`. */
typedef struct {
    candidate *heap, *order;
    result *results;
    box *chosen; /* of one class */
    int64_t found;
} selection;

static void keep_class(const cf_combined_nms *n, int64_t class, const float *boxes, const float *scores, selection *s) {
    const int64_t own = n->box_classes > 1 ? class : 0;
    int64_t waiting = 0, kept = 0;
    for (int64_t i = 0; i < n->boxes; i++) {
        const float score = scores[i * n->classes + class];
        if (score > n->score) rise(s->heap, waiting++, (candidate){score, (int32_t)i}, 0);
    }
    while (kept < n->per_class && waiting > 0) {
        const candidate next = take(s->heap, waiting--, 0);
        const box b = box_of(boxes + 4 * (next.box * n->box_classes + own));
        int64_t j = kept;
        while (j > 0 && !(overlap(&b, &s->chosen[j - 1]) > n->overlap)) j--;
        if (j > 0) continue;
        s->chosen[kept++] = b;
        s->results[s->found] = (result){next.box, (int32_t)class};
        rise(s->order, s->found, (candidate){next.score, (int32_t)s->found}, 1);
        s->found++;
    }
}

void cf_run_combined_nms(const cf_combined_nms *n, const float *boxes, const float *scores, float *out_boxes,
                         float *out_scores, float *out_classes, int32_t *counts, void *scratch) {
    const int64_t most_found = n->per_class * n->classes;
    selection s = {.heap = scratch};
    s.order = s.heap + n->boxes;
    s.results = (result *)(s.order + most_found);
    s.chosen = (box *)(s.results + most_found);
    memset(out_boxes, 0, (size_t)(n->batch * n->size) * 4 * sizeof *out_boxes);
    memset(out_scores, 0, (size_t)(n->batch * n->size) * sizeof *out_scores);
    memset(out_classes, 0, (size_t)(n->batch * n->size) * sizeof *out_classes);
    for (int64_t image = 0; image < n->batch; image++) {
        const float *own = boxes + 4 * image * n->boxes * n->box_classes;
        s.found = 0;
        for (int64_t class = 0; class < n->classes; class++) {
            keep_class(n, class, own, scores + image * n->boxes * n->classes, &s);
        }
        const int64_t count = s.found < n->size ? s.found : n->size;
        counts[image] = (int32_t)count;
        for (int64_t i = image * n->size; i < image * n->size + count; i++) {
            const candidate next = take(s.order, s.found--, 1);
            const result *r = &s.results[next.box];
            const float *corners = own + 4 * (r->box * n->box_classes + (n->box_classes > 1 ? r->class : 0));
            for (int k = 0; k < 4; k++) {
                out_boxes[4 * i + k] = n->clip ? most(least(corners[k], 1), 0) : corners[k];
            }
            out_scores[i] = next.score;
            out_classes[i] = (float)r->class;
        }
    }
}
