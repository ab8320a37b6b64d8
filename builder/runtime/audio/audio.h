/* Recordings for a model that takes sound: what the function decodes and resamples them with, and nothing else uses.
 *
 * Only libraries of such models have these functions. handler/audio.py calls them, through handler/_audio.py, which is
 * made from this file.
 */
#ifndef CF_AUDIO_H
#define CF_AUDIO_H

#include <stddef.h>
#include <stdint.h>

/* Samples as WAV has them, little-endian. */
typedef enum cf_pcm { CF_PCM_U8, CF_PCM_S16, CF_PCM_S24, CF_PCM_S32, CF_PCM_F32, CF_PCM_F64 } cf_pcm;

/* The mean of the `channels` interleaved in each of `frames`, -1 to 1. Returns 0; -1 if a sample is not finite. */
int cf_mono(const void *samples, cf_pcm kind, int channels, int64_t frames, float *mono);

/* The same of the first `frames` of a FLAC file; where `mono` is null, they are only counted. Returns how many there
 * are, which are fewer where the file ends or is damaged, or -1 if it is no FLAC file or there is no memory. */
int64_t cf_flac_read(const void *file, size_t size, int64_t frames, float *mono);

/* The same of an MP3 file, from its first frame on. Returns -1 if it is no such file, or anything but a tag follows its
 * last whole frame. What an encoder put before and behind the recording does not count, if the file says how much. */
int64_t cf_mp3_read(const void *file, size_t size, int64_t frames, float *mono);

/* `count` samples at the rate `from` become ceil(count * to / from) at the rate `to`, with the filter of
 * scipy.signal.resample_poly: a sinc over 10 zero crossings on either side, under a Kaiser window of beta 5; zeros
 * stand before and after. Returns 0, or -1 if there is no memory. */
int cf_resample(const float *samples, int64_t count, int64_t from, int64_t to, float *resampled);

#endif
