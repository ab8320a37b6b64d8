/*
 * The functions that XLA's kernels call an element at a time. They are linked into the kernels' IR before it is
 * optimised, so that they are inlined into its loops and become vectors. What is not here comes from the C library.
 * Errors of the float functions are a few units in the last place.
 *
 * exp and log have the coefficients of Cephes' expf.c and logf.c (S. L. Moshier, netlib.org/cephes, single precision;
 * its README: "may be used freely"). Those of tanh and erf are Eigen's (MPL 2.0); see fused/activation.h. Only the
 * coefficients come from there, no code.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int32_t bits_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x within [low, high]; NaN where x is NaN. */
static inline float clamp(float x, float low, float high) {
    const float y = x < low ? low : x;
    return y > high ? high : y;
}

/* 2^n for n in [-126, 127]. */
static inline float power_of_two(int32_t n) { return float_of((n + 127) * (1 << 23)); }

/* x = n ln 2 + r, then Cephes' polynomial in r. 2^n is multiplied in two factors, since it may be no float itself. */
float cf_exp_f32(float x) {
    x = clamp(x, -150.0f, 128.0f);
    const float n = rintf(x * 1.44269504f);
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const int32_t whole = n == n ? (int32_t)n : 0, half = whole >> 1;
    return p * power_of_two(half) * power_of_two(whole - half);
}

/* x = 2^n m with m in [sqrt(1/2), sqrt(2)), then Cephes' polynomial in m - 1. */
float cf_log_f32(float x) {
    const int tiny = x < 1.17549435e-38f;
    const int32_t bits = bits_of(tiny ? x * 8388608.0f : x);
    const int32_t above = bits - 0x3f3504f3; /* sqrt(1/2) */
    const float n = (float)((above >> 23) - (tiny ? 23 : 0));
    const float m = float_of((above & 0x007fffff) + 0x3f3504f3) - 1.0f;
    const float q = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * q;
    p = p + n * -2.12194440e-4f - 0.5f * q;
    float y = m + p + n * 0.693359375f;
    y = x == INFINITY ? x : y;
    y = x == 0.0f ? -INFINITY : y;
    return x >= 0.0f ? y : NAN;
}

/* x log(u) / (u - 1) with u = 1 + x as rounded: the rounding error of u cancels. */
float cf_log1p_f32(float x) {
    const float u = 1.0f + x, y = cf_log_f32(u);
    return u == 1.0f || x == INFINITY ? x : y * (u == 0.0f ? 1.0f : x / (u - 1.0f));
}

/* A rational function on [-7.905, 7.905], outside of which it is +-1. */
float cf_tanh_f32(float x) {
    const float y = clamp(x, -7.90531110763549805f, 7.90531110763549805f), q = y * y;
    float p = -2.76076847742355e-16f;
    p = p * q + 2.00018790482477e-13f;
    p = p * q - 8.60467152213735e-11f;
    p = p * q + 5.12229709037114e-08f;
    p = p * q + 1.48572235717979e-05f;
    p = p * q + 6.37261928875436e-04f;
    p = p * q + 4.89352455891786e-03f;
    float d = 1.19825839466702e-06f;
    d = d * q + 1.18534705686654e-04f;
    d = d * q + 2.26843463243900e-03f;
    d = d * q + 4.89352518554385e-03f;
    return fabsf(x) < 4e-4f ? x : y * p / d;
}

/* A rational function on [-4, 4], outside of which it is +-1; absolute error about 1e-7. */
float cf_erf_f32(float x) {
    x = clamp(x, -4.0f, 4.0f);
    const float q = x * x;
    float p = -2.72614225801306e-10f;
    p = p * q + 2.77068142495902e-08f;
    p = p * q - 2.10102402082508e-06f;
    p = p * q - 5.69250639462346e-05f;
    p = p * q - 7.34990630326855e-04f;
    p = p * q - 2.95459980854025e-03f;
    p = p * q - 1.60960333262415e-02f;
    float d = -1.45660718464996e-05f;
    d = d * q - 2.13374055278905e-04f;
    d = d * q - 1.68282697438203e-03f;
    d = d * q - 7.37332916720468e-03f;
    d = d * q - 1.42647390514189e-02f;
    return x * p / d;
}

float cf_rsqrt_f32(float x) { return 1.0f / sqrtf(x); }

double cf_exp_f64(double x) { return exp(x); }
double cf_log_f64(double x) { return log(x); }
double cf_log1p_f64(double x) { return log1p(x); }
double cf_tanh_f64(double x) { return tanh(x); }
double cf_erf_f64(double x) { return erf(x); }
double cf_rsqrt_f64(double x) { return 1.0 / sqrt(x); }
