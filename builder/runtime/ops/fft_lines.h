/*
 * Discrete Fourier transforms of eight lines at once, a line in each lane of a vector: Stockham's algorithm, of any
 * radix. A pass of radix p reads `left / p` numbers p times and writes the p results side by side, so that the numbers
 * come out in order after the last one.
 */
#ifndef COLDFORGE_FFT_LINES_H
#define COLDFORGE_FFT_LINES_H

#include <stdint.h>

/* Nothing here passes vectors between translation units. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#define INLINE static inline __attribute__((always_inline))

enum { CF_LINES = 8, CF_LARGEST_RADIX = 31 };

typedef float lanes __attribute__((vector_size(4 * CF_LINES)));
typedef float loose_lanes __attribute__((vector_size(4 * CF_LINES), aligned(4), may_alias));

/* One complex number of every line. */
typedef struct {
    lanes re, im;
} number;

/* exp(-2 pi i k / length) */
typedef struct {
    float re, im;
} root;

INLINE number plus(number a, number b) { return (number){a.re + b.re, a.im + b.im}; }
INLINE number minus(number a, number b) { return (number){a.re - b.re, a.im - b.im}; }
INLINE number turned(number a) { return (number){a.im, -a.re}; } /* times -i */
INLINE number scaled(number a, float by) { return (number){a.re * by, a.im * by}; }
INLINE number times(number a, root w) { return (number){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re}; }

/* Of a pass: `left` of the numbers' length is still to be transformed, `side` results lie side by side. */
typedef struct {
    int64_t left, side;
    const root *w; /* of the whole length */
} pass;

/* Multiply result r of position k by its root, but where all of them are 1. */
INLINE number twiddled(const pass *p, int64_t k, int64_t r, int plain, number x) {
    return plain ? x : times(x, p->w[k * r * p->side]);
}

INLINE void by_two(const pass *p, int64_t k, int plain, const number *x, number *y) {
    const int64_t side = p->side, step = side * (p->left / 2);
    for (int64_t q = 0; q < side; q++) {
        const number a = x[q], b = x[q + step];
        y[q] = plus(a, b);
        y[q + side] = twiddled(p, k, 1, plain, minus(a, b));
    }
}

INLINE void by_four(const pass *p, int64_t k, int plain, const number *x, number *y) {
    const int64_t side = p->side, step = side * (p->left / 4);
    for (int64_t q = 0; q < side; q++) {
        const number a = x[q], b = x[q + step], c = x[q + 2 * step], d = x[q + 3 * step];
        const number even = plus(a, c), odd = plus(b, d), more = minus(a, c), less = turned(minus(b, d));
        y[q] = plus(even, odd);
        y[q + side] = twiddled(p, k, 1, plain, plus(more, less));
        y[q + 2 * side] = twiddled(p, k, 2, plain, minus(even, odd));
        y[q + 3 * side] = twiddled(p, k, 3, plain, minus(more, less));
    }
}

/* Inputs j and radix - j meet the same cosines, and sines of opposite sign. */
INLINE void by_odd(const pass *p, int64_t radix, const root *turn, int64_t k, int plain, const number *x, number *y) {
    const int64_t side = p->side, step = side * (p->left / radix);
    for (int64_t q = 0; q < side; q++) {
        number sum[CF_LARGEST_RADIX / 2 + 1], difference[CF_LARGEST_RADIX / 2 + 1];
        const number first = x[q];
        number all = first;
        for (int64_t j = 1; j <= radix / 2; j++) {
            const number a = x[q + j * step], b = x[q + (radix - j) * step];
            sum[j] = plus(a, b);
            difference[j] = minus(a, b);
            all = plus(all, sum[j]);
        }
        y[q] = all;
        for (int64_t r = 1; r <= radix / 2; r++) {
            number c = first, s = {{0}, {0}};
            for (int64_t j = 1, at = 0; j <= radix / 2; j++) {
                at = at + r < radix ? at + r : at + r - radix; /* j * r % radix */
                const root t = turn[at];
                c = plus(c, scaled(sum[j], t.re));
                s = plus(s, scaled(difference[j], -t.im));
            }
            y[q + r * side] = twiddled(p, k, r, plain, plus(c, turned(s)));
            y[q + (radix - r) * side] = twiddled(p, k, radix - r, plain, minus(c, turned(s)));
        }
    }
}

INLINE void pass_of(int64_t radix, const pass *p, const root *turn, int64_t k, int plain, const number *x, number *y) {
    if (radix == 2) {
        by_two(p, k, plain, x, y);
    } else if (radix == 4) {
        by_four(p, k, plain, x, y);
    } else {
        by_odd(p, radix, turn, k, plain, x, y);
    }
}

INLINE void run_pass(int64_t radix, const pass *p, const root *turn, const number *x, number *y) {
    pass_of(radix, p, turn, 0, 1, x, y);
    for (int64_t k = 1; k < p->left / radix; k++) {
        pass_of(radix, p, turn, k, 0, x + k * p->side, y + k * p->side * radix);
    }
}

static int64_t radix_of(int64_t left) {
    if (left % 4 == 0) return 4;
    for (int64_t radix = 2; radix * radix <= left; radix++) {
        if (left % radix == 0) return radix;
    }
    return left;
}

/* Transform n numbers of every line. Returns where they are then: x or y, which both have room for n and are changed.
 * No prime factor of n is larger than CF_LARGEST_RADIX. w: the n roots. */
static number *transform_lines(int64_t n, number *x, number *y, const root *w) {
    pass p = {n, 1, w};
    while (p.left > 1) {
        const int64_t radix = radix_of(p.left);
        root turn[CF_LARGEST_RADIX];
        for (int64_t i = 0; i < radix; i++) turn[i] = w[i * (n / radix)];
        switch (radix) {
        case 2: run_pass(2, &p, turn, x, y); break;
        case 3: run_pass(3, &p, turn, x, y); break;
        case 4: run_pass(4, &p, turn, x, y); break;
        case 5: run_pass(5, &p, turn, x, y); break;
        default: run_pass(radix | 1, &p, turn, x, y);
        }
        number *swap = x;
        x = y;
        y = swap;
        p.left /= radix;
        p.side *= radix;
    }
    return x;
}

#endif
