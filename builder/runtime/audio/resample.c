/* Another sample rate: polyphase filtering, as scipy.signal.resample_poly. */
#include <math.h>
#include <stdlib.h>

#include "audio/audio.h"

#define EXPORT __attribute__((visibility("default")))

static const double PI = 3.14159265358979323846, BETA = 5.0;
static const int64_t CROSSINGS = 10;

/* The modified Bessel function of the first kind and order 0, as its power series. */
static double bessel(double x) {
    double sum = 1, term = 1;
    for (int k = 1; term > sum * 1e-17; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

static double tap(int64_t at, int64_t half, int64_t slower) {
    const double place = (double)at / (double)half, angle = PI * (double)at / (double)slower;
    return (at ? sin(angle) / angle : 1) * bessel(BETA * sqrt(1 - place * place));
}

static int64_t divisor(int64_t a, int64_t b) { return b ? divisor(b, a % b) : a; }

EXPORT int cf_resample(const float *samples, int64_t count, int64_t from, int64_t to, float *resampled) {
    const int64_t common = divisor(from, to), up = to / common, down = from / common;
    const int64_t slower = up > down ? up : down, half = CROSSINGS * slower;
    /* A row for each phase: the taps that meet samples, which are `up` apart, the one of the earliest sample first. */
    const int64_t width = 2 * half / up + 1;
    double *rows = malloc((size_t)(up * width) * sizeof *rows);
    if (!rows) return -1;
    double sum = 0;
    for (int64_t phase = 0; phase < up; phase++) {
        for (int64_t k = 0; k < width; k++) {
            const int64_t place = phase + (width - 1 - k) * up;
            sum += rows[phase * width + k] = place <= 2 * half ? tap(place - half, half, slower) : 0;
        }
    }
    const double scale = (double)up / sum;
    const int64_t total = (count * up + down - 1) / down;
    for (int64_t at = 0; at < total; at++) {
        const int64_t last = (at * down + half) / up, first = last - width + 1;
        const double *row = rows + (at * down + half) % up * width;
        const int64_t begin = first > 0 ? first : 0, end = last < count ? last + 1 : count;
        double sums[4] = {0}; /* additions that need not wait for one another */
        int64_t sample = begin;
        for (; sample + 4 <= end; sample += 4) {
            for (int lane = 0; lane < 4; lane++) {
                sums[lane] += row[sample + lane - first] * (double)samples[sample + lane];
            }
        }
        for (; sample < end; sample++) {
            sums[0] += row[sample - first] * (double)samples[sample];
        }
        resampled[at] = (float)(((sums[0] + sums[1]) + (sums[2] + sums[3])) * scale);
    }
    free(rows);
    return 0;
}
