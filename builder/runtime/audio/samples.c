/* Samples of every type that WAV has, as one channel of floats. */
#include <math.h>
#include <string.h>

#include "audio/audio.h"

#define EXPORT __attribute__((visibility("default")))

static double u8(const uint8_t *at) { return (*at - 128) / 128.0; }

static double s16(const uint8_t *at) { return (int16_t)(at[0] | at[1] << 8) / 32768.0; }

static double s24(const uint8_t *at) {
    return (int32_t)((uint32_t)at[0] << 8 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 24) / 2147483648.0;
}

static double s32(const uint8_t *at) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value / 2147483648.0;
}

static double f32(const uint8_t *at) {
    float value;
    memcpy(&value, at, sizeof value);
    return (double)value;
}

static double f64(const uint8_t *at) {
    double value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* A loop of its own for each type, in which the compiler puts the type's function. */
#define MONO(type, bytes)                                                     \
    for (int64_t frame = 0; frame < frames; frame++) {                        \
        double sum = 0;                                                       \
        for (int channel = 0; channel < channels; channel++, at += (bytes)) { \
            sum += type(at);                                                  \
        }                                                                     \
        mono[frame] = (float)(sum / channels);                                \
        finite &= isfinite(mono[frame]) != 0;                                 \
    }                                                                         \
    break

EXPORT int cf_mono(const void *samples, cf_pcm kind, int channels, int64_t frames, float *mono) {
    const uint8_t *at = samples;
    int finite = 1;
    switch (kind) {
        case CF_PCM_U8: MONO(u8, 1);
        case CF_PCM_S16: MONO(s16, 2);
        case CF_PCM_S24: MONO(s24, 3);
        case CF_PCM_S32: MONO(s32, 4);
        case CF_PCM_F32: MONO(f32, 4);
        case CF_PCM_F64: MONO(f64, 8);
    }
    return finite ? 0 : -1;
}
