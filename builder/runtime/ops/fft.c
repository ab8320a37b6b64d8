/* Discrete Fourier transforms of float32, of any length and over up to three dimensions. */
#include "ops/kernels.h"

#include <string.h>

#include "ops/fft_lines.h"

/* Complex numbers as they lie in memory: real and imaginary parts in turn. */
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

INLINE lanes load(const float *p) { return *(const loose_lanes *)p; }
INLINE void store(float *p, lanes v) { *(loose_lanes *)p = v; }
INLINE number swapped(number a) { return (number){a.im, a.re}; }

/* Rows become columns, of eight vectors. */
INLINE void transpose(lanes v[8]) {
    lanes a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = SHUFFLE(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        a[i + 1] = SHUFFLE(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int j = 0; j < 2; j++) {
            b[i + 2 * j] = SHUFFLE(a[i + j], a[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            b[i + 2 * j + 1] = SHUFFLE(a[i + j], a[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int i = 0; i < 4; i++) {
        v[i] = SHUFFLE(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        v[i + 4] = SHUFFLE(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Lines of complex numbers: of `count` lines, number k of line l is at[2 * (l * line + k * step)]. */
typedef struct {
    float *at;
    int64_t line, step;
    int count; /* 1..CF_LINES */
} lines;

/* The numbers at `at`, one of every line; the lanes of lines that there are not get the first line's. */
static number load_one(const lines *from, int64_t k) {
    float re[CF_LINES], im[CF_LINES];
    for (int l = 0; l < CF_LINES; l++) {
        const float *at = from->at + 2 * ((l < from->count ? l : 0) * from->line + k * from->step);
        re[l] = at[0];
        im[l] = at[1];
    }
    return (number){load(re), load(im)};
}

static void store_one(number x, const lines *to, int64_t k) {
    float re[CF_LINES], im[CF_LINES];
    store(re, x.re);
    store(im, x.im);
    for (int l = 0; l < to->count; l++) {
        float *at = to->at + 2 * (l * to->line + k * to->step);
        at[0] = re[l];
        at[1] = im[l];
    }
}

static void load_lines(int64_t n, const lines *from, int inverse, number *to) {
    int64_t k = 0;
    if (from->step == 1) { /* dense lines */
        for (; k + 4 <= n; k += 4) {
            lanes v[8];
            for (int l = 0; l < 8; l++) v[l] = load(from->at + 2 * ((l < from->count ? l : 0) * from->line + k));
            transpose(v);
            for (int i = 0; i < 4; i++) to[k + i] = (number){v[2 * i], v[2 * i + 1]};
        }
    } else if (from->line == 1 && from->count == CF_LINES) { /* lines side by side */
        for (; k < n; k++) {
            const float *at = from->at + 2 * k * from->step;
            const lanes a = load(at), b = load(at + 8);
            to[k] = (number){SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14), SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
        }
    }
    for (; k < n; k++) to[k] = load_one(from, k);
    if (inverse) {
        for (k = 0; k < n; k++) to[k] = swapped(to[k]);
    }
}

/* Numbers of eight lines at neighbouring places. */
INLINE void store_beside(number x, float *at) {
    store(at, SHUFFLE(x.re, x.im, 0, 8, 1, 9, 2, 10, 3, 11));
    store(at + 8, SHUFFLE(x.re, x.im, 4, 12, 5, 13, 6, 14, 7, 15));
}

INLINE number result(number x, int inverse, float scale) { return scaled(inverse ? swapped(x) : x, scale); }

static void store_lines(int64_t n, const number *from, int inverse, float scale, const lines *to) {
    int64_t k = 0;
    if (to->step == 1) {
        for (; k + 4 <= n; k += 4) {
            lanes v[8];
            for (int i = 0; i < 4; i++) {
                const number x = result(from[k + i], inverse, scale);
                v[2 * i] = x.re;
                v[2 * i + 1] = x.im;
            }
            transpose(v);
            for (int l = 0; l < to->count; l++) store(to->at + 2 * (l * to->line + k), v[l]);
        }
    } else if (to->line == 1 && to->count == CF_LINES) {
        for (; k < n; k++) store_beside(result(from[k], inverse, scale), to->at + 2 * k * to->step);
    }
    for (; k < n; k++) store_one(result(from[k], inverse, scale), to, k);
}

/* The transform of eight numbers, in order. */
INLINE void by_eight(number v[8]) {
    const float half = 0.70710678f;
    number y[8];
    for (int odd = 0; odd < 2; odd++) {
        const number a = v[odd], b = v[odd + 2], c = v[odd + 4], d = v[odd + 6];
        const number even = plus(a, c), more = minus(a, c), both = plus(b, d), less = turned(minus(b, d));
        y[4 * odd] = plus(even, both);
        y[4 * odd + 1] = plus(more, less);
        y[4 * odd + 2] = minus(even, both);
        y[4 * odd + 3] = minus(more, less);
    }
    y[5] = scaled(plus(y[5], turned(y[5])), half);
    y[6] = turned(y[6]);
    y[7] = scaled(minus(turned(y[7]), y[7]), half);
    for (int k = 0; k < 4; k++) {
        v[k] = plus(y[k], y[k + 4]);
        v[k + 4] = minus(y[k], y[k + 4]);
    }
}

/* One line, whose every eighth number is in one lane: the lanes are transformed, and this puts them together.
 * roots[m][2][8]: of number k and lane l, exp(-2 pi i k l / 8m). */
static void join_lanes(int64_t m, const number *from, const float *roots, int inverse, float scale, float *to) {
    for (int64_t k = 0; k < m; k += 8) {
        const int count = m - k < 8 ? (int)(m - k) : 8;
        lanes re[8] = {{0}}, im[8] = {{0}};
        for (int i = 0; i < count; i++) {
            const number x = from[k + i];
            const lanes a = load(roots + 16 * (k + i)), b = load(roots + 16 * (k + i) + 8);
            re[i] = x.re * a - x.im * b;
            im[i] = x.re * b + x.im * a;
        }
        transpose(re);
        transpose(im);
        number v[8];
        for (int l = 0; l < 8; l++) v[l] = (number){re[l], im[l]};
        by_eight(v);
        for (int l = 0; l < 8; l++) {
            const lines at = {to + 2 * (m * l + k), 1, 0, count};
            const number x = result(v[l], inverse, scale);
            if (count == 8) {
                store_beside(x, at.at);
            } else {
                store_one(x, &at, 0);
            }
        }
    }
}

/* What transform_lines transforms of one axis: a line, a line filled up with zeros, or the eighth of either. */
static int64_t lane_length(const cf_fft_axis *a) {
    const int64_t whole = a->padded ? a->padded : a->length;
    return a->split ? whole / 8 : whole;
}

/* Where an axis has its tables, in the order of cf_fft_axis. */
typedef struct {
    const float *roots, *joined, *chirp, *spectrum, *halves;
} tables;

static tables tables_of(const cf_fft_axis *a, const float *all) {
    tables t = {.roots = all + a->tables};
    t.joined = t.roots + 2 * lane_length(a);
    t.chirp = t.joined + (a->split ? 16 * lane_length(a) : 0);
    t.spectrum = t.chirp + (a->padded ? 2 * a->length : 0);
    t.halves = t.spectrum + 2 * a->padded;
    return t;
}

/* What all transforms along one axis have in common. */
typedef struct {
    const cf_fft_axis *axis;
    tables tables;
    int inverse; /* not divided by the length: real and imaginary parts change places before and after */
    float scale; /* of the results */
    number *room;
} plan;

static void transform(const plan *p, const lines *from, const lines *to, int inverse, float scale) {
    const int64_t n = lane_length(p->axis);
    const root *roots = (const root *)p->tables.roots;
    if (!p->axis->split) {
        load_lines(n, from, inverse, p->room);
        store_lines(n, transform_lines(n, p->room, p->room + n, roots), inverse, scale, to);
        return;
    }
    for (int l = 0; l < from->count; l++) {
        const lines line = {from->at + 2 * l * from->line, 1, 8, CF_LINES};
        load_lines(n, &line, inverse, p->room);
        const number *found = transform_lines(n, p->room, p->room + n, roots);
        join_lanes(n, found, p->tables.joined, inverse, scale, to->at + 2 * l * to->line);
    }
}

/* to = from * factors * scale, of complex numbers with steps; parts change places before or after. */
static void multiply(int64_t n, const float *from, int64_t from_step, const float *factors, float scale,
                     int before, int after, float *to, int64_t to_step) {
    for (int64_t k = 0; k < n; k++) {
        const float *x = from + 2 * k * from_step, *w = factors + 2 * k;
        const float re = x[before], im = x[1 - before];
        float *y = to + 2 * k * to_step;
        y[after] = (re * w[0] - im * w[1]) * scale;
        y[1 - after] = (re * w[1] + im * w[0]) * scale;
    }
}

/* Bluestein's algorithm: a transform of any length as a convolution, which is two transforms of a good length. */
static void convolve(const plan *p, const lines *from, const lines *to) {
    const int64_t n = p->axis->length, padded = p->axis->padded;
    float *z = (float *)(p->room + 2 * lane_length(p->axis));
    const lines all = {z, padded, 1, from->count};
    for (int l = 0; l < from->count; l++) {
        float *line = z + 2 * l * padded;
        multiply(n, from->at + 2 * l * from->line, from->step, p->tables.chirp, 1, p->inverse, 0, line, 1);
        memset(line + 2 * n, 0, (size_t)(padded - n) * 2 * sizeof *line);
    }
    transform(p, &all, &all, 0, 1);
    for (int l = 0; l < from->count; l++) {
        float *line = z + 2 * l * padded;
        multiply(padded, line, 1, p->tables.spectrum, 1, 0, 0, line, 1);
    }
    transform(p, &all, &all, 1, 1);
    for (int l = 0; l < from->count; l++) {
        multiply(n, z + 2 * l * padded, 1, p->tables.chirp, p->scale, 0, p->inverse, to->at + 2 * l * to->line,
                 to->step);
    }
}

static void run_lines(const plan *p, const lines *from, const lines *to) {
    if (p->axis->padded) {
        convolve(p, from, to);
    } else {
        transform(p, from, to, p->inverse, p->scale);
    }
}

/*
 * A transform of h complex numbers is that of their 2h parts as real numbers, but for a step that changes the numbers k
 * and h - k together; this is the step, from z[h] to the first half, z[h + 1], or `back`, which gives twice z[h].
 * halves[k]: -i exp(-2 pi i k / 2h).
 */
static void unfold(float *z, int64_t h, const float *halves, int back) {
    const float half = back ? 1 : 0.5f;
    const float first = z[0], other = back ? z[2 * h] : z[1];
    z[0] = first + other;
    z[1] = back ? first - other : 0;
    if (!back) {
        z[2 * h] = first - other;
        z[2 * h + 1] = 0;
    }
    int64_t k = 1;
    const lanes conjugate = {1, -1, 1, -1, 1, -1, 1, -1}, sign = back ? conjugate : -conjugate;
    for (; k + 3 < h - k - 3; k += 4) {
        float *low = z + 2 * k, *high = z + 2 * (h - k - 3);
        const lanes a = load(low), b = load(high), w = load(halves + 2 * k);
        const lanes c = SHUFFLE(b, b, 6, 7, 4, 5, 2, 3, 0, 1) * conjugate;
        const lanes sum = a + c, difference = a - c;
        const lanes turn = SHUFFLE(w, w, 0, 0, 2, 2, 4, 4, 6, 6), side = SHUFFLE(w, w, 1, 1, 3, 3, 5, 5, 7, 7) * sign;
        const lanes t = difference * turn + SHUFFLE(difference, difference, 1, 0, 3, 2, 5, 4, 7, 6) * side;
        const lanes d = (sum - t) * half * conjugate;
        store(low, (sum + t) * half);
        store(high, SHUFFLE(d, d, 6, 7, 4, 5, 2, 3, 0, 1));
    }
    for (; k <= h - k; k++) {
        float *low = z + 2 * k, *high = z + 2 * (h - k);
        const float re = low[0] - high[0], im = low[1] + high[1], plus_re = low[0] + high[0], plus_im = low[1] - high[1];
        const float turn = halves[2 * k], side = back ? -halves[2 * k + 1] : halves[2 * k + 1];
        const float t_re = re * turn - im * side, t_im = re * side + im * turn;
        high[0] = (plus_re - t_re) * half;
        high[1] = (t_im - plus_im) * half;
        low[0] = (plus_re + t_re) * half;
        low[1] = (plus_im + t_im) * half;
    }
}

/* Rows of real numbers to the first halves of their transforms. work: CF_LINES lines, where the length is odd. */
static void real_rows(const plan *p, int64_t rows, int64_t size, const float *from, float *to, float *work) {
    const int64_t half = size / 2 + 1;
    for (int64_t row = 0; row < rows; row += CF_LINES) {
        const int count = rows - row < CF_LINES ? (int)(rows - row) : CF_LINES;
        const float *in = from + row * size;
        float *out = to + 2 * row * half;
        if (size % 2 == 0) {
            run_lines(p, &(lines){(float *)(uintptr_t)in, size / 2, 1, count}, &(lines){out, half, 1, count});
            for (int l = 0; l < count; l++) unfold(out + 2 * l * half, size / 2, p->tables.halves, 0);
            continue;
        }
        for (int64_t i = 0; i < count * size; i++) {
            work[2 * i] = in[i];
            work[2 * i + 1] = 0;
        }
        const lines all = {work, size, 1, count};
        run_lines(p, &all, &all);
        for (int l = 0; l < count; l++) {
            memcpy(out + 2 * l * half, work + 2 * l * size, (size_t)half * 2 * sizeof *out);
        }
    }
}

/* And back. Of the first number, and of the last where the size is even, only the real part counts. */
static void rows_of_reals(const plan *p, int64_t rows, int64_t size, const float *from, float *to, float *work) {
    const int64_t half = size / 2 + 1;
    for (int64_t row = 0; row < rows; row += CF_LINES) {
        const int count = rows - row < CF_LINES ? (int)(rows - row) : CF_LINES;
        const float *in = from + 2 * row * half;
        float *out = to + row * size;
        if (size % 2 == 0) {
            memcpy(work, in, (size_t)(count * half) * 2 * sizeof *work);
            for (int l = 0; l < count; l++) unfold(work + 2 * l * half, size / 2, p->tables.halves, 1);
            run_lines(p, &(lines){work, half, 1, count}, &(lines){out, size / 2, 1, count});
            continue;
        }
        for (int l = 0; l < count; l++) {
            float *line = work + 2 * l * size;
            memcpy(line, in + 2 * l * half, (size_t)half * 2 * sizeof *line);
            line[1] = 0;
            for (int64_t k = 1; k < half; k++) {
                line[2 * (size - k)] = line[2 * k];
                line[2 * (size - k) + 1] = -line[2 * k + 1];
            }
        }
        const lines all = {work, size, 1, count};
        run_lines(p, &all, &all);
        for (int64_t i = 0; i < count * size; i++) out[i] = work[2 * i];
    }
}

static void complex_rows(const plan *p, int64_t rows, const float *from, float *to) {
    const int64_t n = p->axis->size;
    for (int64_t row = 0; row < rows; row += CF_LINES) {
        const int count = rows - row < CF_LINES ? (int)(rows - row) : CF_LINES;
        const float *in = from + 2 * row * n;
        run_lines(p, &(lines){(float *)(uintptr_t)in, n, 1, count}, &(lines){to + 2 * row * n, n, 1, count});
    }
}

/* Along a dimension that is not the last one, in place: data[outer][size][inner]. */
static void columns(const plan *p, int64_t outer, int64_t inner, float *data) {
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t column = 0; column < inner; column += CF_LINES) {
            const int count = inner - column < CF_LINES ? (int)(inner - column) : CF_LINES;
            const lines all = {data + 2 * (o * p->axis->size * inner + column), 1, inner, count};
            run_lines(p, &all, &all);
        }
    }
}

void cf_run_fft(const cf_fft *f, const float *input, const float *all, float *output, float *scratch) {
    const int last = f->rank - 1, inverse = f->kind == CF_IFFT || f->kind == CF_IRFFT;
    const int64_t size = f->axes[last].size;
    plan plans[3];
    int64_t rows = f->batch;
    float scale = 1;
    for (int i = 0; i < f->rank; i++) {
        const cf_fft_axis *axis = &f->axes[i];
        plans[i] = (plan){axis, tables_of(axis, all), inverse, 1, (number *)scratch};
        if (i < last) rows *= axis->size;
        scale /= inverse ? (float)axis->size : 1;
    }
    plans[last].scale = scale;
    int64_t inner = f->kind == CF_FFT || f->kind == CF_IFFT ? size : size / 2 + 1;
    float *data = output; /* that the other dimensions are transformed in */
    if (f->kind == CF_RFFT) {
        real_rows(&plans[last], rows, size, input, output, scratch + f->lines);
    } else if (f->kind != CF_IRFFT) {
        complex_rows(&plans[last], rows, input, output);
    } else if (last > 0) {
        data = memcpy(scratch + f->copy, input, (size_t)(rows * inner) * 2 * sizeof *data);
    }
    for (int64_t i = last - 1, outer = rows; i >= 0; i--) {
        outer /= f->axes[i].size;
        columns(&plans[i], outer, inner, data);
        inner *= f->axes[i].size;
    }
    if (f->kind == CF_IRFFT) {
        rows_of_reals(&plans[last], rows, size, last > 0 ? data : input, output, scratch + f->lines);
    }
}
