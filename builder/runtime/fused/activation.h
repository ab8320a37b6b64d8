/*
 * Activations, a vector at a time. Errors are a few units in the last place, except where noted. Only the coefficients
 * come from the sources that are named, no code.
 */
#ifndef COLDFORGE_ACTIVATION_H
#define COLDFORGE_ACTIVATION_H

#include "fused/fused.h"
#include "fused/vector.h"

/*
 * e^x = 2^n e^r, where x = n ln 2 + r and |r| <= ln(2) / 2; relative error 1e-7. x lies between -87.33654 (ln 2^-126) and
 * 88.37626 (ln 2^127.5).
 *
 * ln 2 in two parts, 0.693359375 and -2.12194440e-4, is that of Cephes' expf.c (S. L. Moshier, netlib.org/cephes,
 * single precision; its README: "may be used freely"). The polynomial 1 + r + r^2 (c2 + c3 r + c4 r^2 + c5 r^3) is in
 * no published library; it was fitted for this file, so that the largest relative error on |r| <= ln(2) / 2 is
 * smallest, and its coefficients rounded to float32. tests/unit/test_coefficients.py makes that fit again.
 */
INLINE vec exp_in_range(vec x) {
    const vec magic = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    const vec shifted = x * splat(1.44269504f) + magic;
    const vec n = shifted - magic;
    vec r = x - n * splat(0.693359375f);
    r = r - n * splat(-2.12194440e-4f);
    vec p = splat(8.312501013278961e-3f);
    p = p * r + splat(4.1890330612659454e-2f);
    p = p * r + splat(0.16667115688323975f);
    p = p * r + splat(0.499992311000824f);
    p = p * r + splat(1.0f);
    p = p * r + splat(1.0f);
    return (vec)((ivec)p + ((ivec)shifted << 23)); /* of magic no bit is left */
}

/* Saturates at these two ends. */
INLINE vec exp_vec(vec x) { return exp_in_range(clamp(x, splat(-87.33654f), splat(88.37626f))); }

/* The same of x <= 0, -infinity too. */
INLINE vec exp_of_negative(vec x) { return exp_in_range(at_least(x, splat(-87.33654f))); }

INLINE vec sigmoid_vec(vec x) { return splat(1.0f) / (splat(1.0f) + exp_vec(-x)); }

/*
 * tanh: a rational function, x p(x^2) / q(x^2), up to a bound at which float32 makes it exactly +-1.
 *
 * Coefficients and bound: Eigen 3.4.0, Eigen/src/Core/MathFunctionsImpl.h, generic_fast_tanh_float (P. Gonnet and
 * G. Guennebaud, MPL 2.0), which XLA uses as well.
 */
#ifdef __wasm__ /* multiplies and adds in two steps, and so rounds twice */
#define TANH_BOUND 7.90531110763549805f
#else
#define TANH_BOUND 7.99881172180175781f
#endif
INLINE vec tanh_numerator(vec x, vec *denominator) {
    x = clamp(x, splat(-TANH_BOUND), splat(TANH_BOUND));
    const vec q = x * x;
    vec p = splat(-2.76076847742355e-16f);
    p = p * q + splat(2.00018790482477e-13f);
    p = p * q + splat(-8.60467152213735e-11f);
    p = p * q + splat(5.12229709037114e-08f);
    p = p * q + splat(1.48572235717979e-05f);
    p = p * q + splat(6.37261928875436e-04f);
    p = p * q + splat(4.89352455891786e-03f);
    vec d = splat(1.19825839466702e-06f);
    d = d * q + splat(1.18534705686654e-04f);
    d = d * q + splat(2.26843463243900e-03f);
    d = d * q + splat(4.89352518554385e-03f);
    *denominator = d;
    return x * p;
}

INLINE vec tanh_vec(vec x) {
    vec d;
    const vec n = tanh_numerator(x, &d);
    return n / d;
}

/* sigmoid(x) * tanh(y), with one division for both. The denominator of tanh is below 1, so nothing overflows. */
INLINE vec sigmoid_tanh_vec(vec x, vec y) {
    vec d;
    const vec n = tanh_numerator(y, &d);
    return n / (d * (splat(1.0f) + exp_vec(-x)));
}

/*
 * erf: a rational function, x p(x^2) / q(x^2), on [-4, 4], outside of which it is +-1; absolute error about 1e-7.
 *
 * Coefficients: Eigen 3.4.0, unsupported/Eigen/src/SpecialFunctions/SpecialFunctionsImpl.h, generic_fast_erf_float
 * (MPL 2.0), which XLA uses as well.
 */
INLINE vec erf_vec(vec x) {
    x = clamp(x, splat(-4.0f), splat(4.0f));
    const vec q = x * x;
    vec p = splat(-2.72614225801306e-10f);
    p = p * q + splat(2.77068142495902e-08f);
    p = p * q + splat(-2.10102402082508e-06f);
    p = p * q + splat(-5.69250639462346e-05f);
    p = p * q + splat(-7.34990630326855e-04f);
    p = p * q + splat(-2.95459980854025e-03f);
    p = p * q + splat(-1.60960333262415e-02f);
    vec d = splat(-1.45660718464996e-05f);
    d = d * q + splat(-2.13374055278905e-04f);
    d = d * q + splat(-1.68282697438203e-03f);
    d = d * q + splat(-7.37332916720468e-03f);
    d = d * q + splat(-1.42647390514189e-02f);
    return x * p / d;
}

INLINE vec hard_sigmoid_vec(vec x) {
    return clamp(x + splat(3.0f), zero(), splat(6.0f)) * splat(1.0f / 6.0f);
}

INLINE vec elu_vec(vec x) {
    /* e^x - 1 = 2t / (1 - t) with t = tanh(x / 2), which is accurate near zero as well. */
    const vec t = tanh_vec(at_most(x, zero()) * splat(0.5f));
    return choose(x > zero(), x, splat(2.0f) * t / (splat(1.0f) - t));
}

/* x / (1 + e^-x). NaN for -infinity, as the frameworks' product of it and 0 is: the 1 is NaN then, and e^-x finite. */
INLINE vec swish_vec(vec x) {
    const vec below = at_most(x, splat(87.33654f)), one = below * zero() + splat(1.0f);
    return x / (one + exp_in_range(-at_least(below, splat(-88.37626f))));
}

/* `kind` is a constant wherever this is used. */
INLINE vec activate(cf_activation kind, vec x, vec low, vec high) {
    switch (kind) {
    case CF_CLAMP: return clamp(x, low, high);
    case CF_SIGMOID: return sigmoid_vec(x);
    case CF_SWISH: return swish_vec(x);
    case CF_HARD_SIGMOID: return hard_sigmoid_vec(x);
    case CF_HARD_SWISH: return x * hard_sigmoid_vec(x);
    case CF_GELU: return splat(0.5f) * x * (splat(1.0f) + erf_vec(x * splat(0.70710678f)));
    case CF_GELU_TANH:
        return splat(0.5f) * x *
               (splat(1.0f) + tanh_vec(splat(0.79788456f) * (x + splat(0.044715f) * x * x * x)));
    case CF_TANH: return tanh_vec(x);
    case CF_ELU: return elu_vec(x);
    case CF_PRELU: break; /* it needs its channels' slopes: store_clamped */
    }
    return x;
}

#endif
