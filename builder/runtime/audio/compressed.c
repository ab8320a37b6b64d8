/* FLAC and MP3, decoded by miniaudio (its ma_dr_flac and ma_dr_mp3), which the build fetches: builder/sources/miniaudio.py.
 *
 * miniaudio's own readers go past whatever they cannot decode, which may take long. Here one frame must follow the
 * other, so that the work is bounded by the file's size, and a damaged file is told from one that is whole.
 */
#include <string.h>

#include "audio/audio.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef NDEBUG
#define NDEBUG
#endif
#define MA_API static __attribute__((unused))
#define MA_NO_DEVICE_IO
#define MA_NO_THREADING
#define MA_NO_ENCODING
#define MA_NO_GENERATION
#define MA_NO_RESOURCE_MANAGER
#define MA_NO_NODE_GRAPH
#define MA_NO_ENGINE
#define MA_NO_WAV
#define MA_DR_FLAC_NO_STDIO
#define MA_DR_FLAC_NO_OGG
#define MA_DR_MP3_NO_STDIO
#define MA_DR_MP3_ONLY_MP3
#define MA_DR_MP3_FLOAT_OUTPUT
#define MINIAUDIO_IMPLEMENTATION
#include <miniaudio.h>

enum { MOST_CHANNELS = 8, CHUNK = 512 };

/* Decode the next FLAC frame. Returns 0 where there is none, or it is damaged. */
static int decode_flac_frame(ma_dr_flac *decoder) {
    ma_dr_flac_frame_header *header = &decoder->currentFLACFrame.header;
    return ma_dr_flac__read_next_flac_frame_header(&decoder->bs, decoder->bitsPerSample, header) &&
           ma_dr_flac__decode_flac_frame(decoder) == MA_SUCCESS;
}

EXPORT int64_t cf_flac_read(const void *file, size_t size, int64_t frames, float *mono) {
    ma_dr_flac *decoder = ma_dr_flac_open_memory(file, size, NULL);
    if (!decoder) return -1;
    int64_t done = 0;
    const int channels = decoder->channels;
    while (channels <= MOST_CHANNELS && done < frames) {
        const int64_t left = decoder->currentFLACFrame.pcmFramesRemaining;
        if (left == 0 && decode_flac_frame(decoder)) continue;
        int64_t wanted = frames - done < left ? frames - done : left;
        if (wanted > CHUNK) wanted = CHUNK;
        ma_int32 chunk[CHUNK * MOST_CHANNELS];
        if (wanted == 0 || ma_dr_flac_read_pcm_frames_s32(decoder, (ma_uint64)wanted, chunk) == 0) break;
        if (mono) cf_mono(chunk, CF_PCM_S32, channels, wanted, mono + done);
        done += wanted;
    }
    ma_dr_flac_close(decoder);
    return done;
}

/* The MP3 frames of a file are all like its first one: of the same rate, and as many channels. `at` is the next byte,
 * `left` the number of bytes from there on. */
typedef struct mp3_frames {
    const uint8_t *first, *at;
    size_t left;
} mp3_frames;

/* The size in bytes of the frame that begins at `at`, or 0 if none does, or not all of it is there. */
static size_t mp3_frame_size(const mp3_frames *file) {
    enum { LAYER_3 = 1 };
    const uint8_t *first = file->first, *at = file->at;
    if (file->left < MA_DR_MP3_HDR_SIZE || !ma_dr_mp3_hdr_compare(first, at)) return 0;
    if (MA_DR_MP3_HDR_GET_LAYER(at) != LAYER_3 || MA_DR_MP3_HDR_IS_FREE_FORMAT(at)) return 0;
    if (MA_DR_MP3_HDR_IS_MONO(at) != MA_DR_MP3_HDR_IS_MONO(first)) return 0;
    const size_t size = (size_t)(ma_dr_mp3_hdr_frame_bytes(at, 0) + ma_dr_mp3_hdr_padding(at));
    return size <= file->left ? size : 0;
}

static void skip(mp3_frames *file, size_t size) {
    file->at += size;
    file->left -= size;
}

/* The samples that an encoder put before and behind the recording. */
typedef struct mp3_padding {
    int64_t before, behind;
} mp3_padding;

/* Skip the first frame if it describes the file and holds no sound: it has the tag of VBRI, or that of Xing, in which
 * LAME's tag has the padding. */
static mp3_padding skip_info(mp3_frames *file) {
    enum { DECODER_DELAY = 529, VBRI = 36, LAME = 21, LENGTHS = 24 };
    mp3_padding padding = {0, 0};
    const uint8_t *frame = file->at;
    const size_t size = mp3_frame_size(file);
    const int mono = MA_DR_MP3_HDR_IS_MONO(frame);
    size_t tag = MA_DR_MP3_HDR_SIZE + (MA_DR_MP3_HDR_TEST_MPEG1(frame) ? (mono ? 17 : 32) : (mono ? 9 : 17));
    if (size >= VBRI + 4 && memcmp(frame + VBRI, "VBRI", 4) == 0) {
        skip(file, size);
    } else if (size >= tag + 8 && (!memcmp(frame + tag, "Xing", 4) || !memcmp(frame + tag, "Info", 4))) {
        const int has = frame[tag + 7];
        tag += 8 + (has & 1 ? 4 : 0) + (has & 2 ? 4 : 0) + (has & 4 ? 100 : 0) + (has & 8 ? 4 : 0);
        if (size >= tag + LENGTHS && frame[tag]) {
            const uint8_t *lengths = frame + tag + LAME;
            padding.before = (lengths[0] << 4 | lengths[1] >> 4) + DECODER_DELAY;
            padding.behind = ((lengths[1] & 15) << 8 | lengths[2]) - DECODER_DELAY;
            if (padding.behind < 0) padding.behind = 0;
        }
        skip(file, size);
    }
    return padding;
}

/* The number of samples in all frames from `at` on; -1 where anything but a tag follows them. */
static int64_t count_mp3(mp3_frames file) {
    int64_t samples = 0;
    for (size_t size; (size = mp3_frame_size(&file)) != 0; skip(&file, size)) {
        samples += ma_dr_mp3_hdr_frame_samples(file.at);
    }
    const int tagged = file.left > 8 && (!memcmp(file.at, "TAG", 3) || !memcmp(file.at, "APETAGEX", 8) ||
                                         !memcmp(file.at, "LYRICS", 6));
    return file.left == 0 || tagged ? samples : -1;
}

EXPORT int64_t cf_mp3_read(const void *file, size_t size, int64_t frames, float *mono) {
    mp3_frames rest = {file, file, size};
    if (mp3_frame_size(&rest) == 0) return -1;
    const mp3_padding padding = skip_info(&rest);
    const int64_t there = count_mp3(rest) - padding.before - padding.behind;
    if (there < frames) frames = there;
    if (!mono || frames < 0) return frames < 0 ? -1 : frames;
    const int channels = MA_DR_MP3_HDR_IS_MONO(rest.first) ? 1 : 2;
    ma_dr_mp3dec decoder;
    ma_dr_mp3dec_init(&decoder);
    int64_t done = -padding.before;
    while (done < frames) {
        float samples[MA_DR_MP3_MAX_SAMPLES_PER_FRAME] = {0};
        ma_dr_mp3dec_frame_info info;
        const size_t bytes = mp3_frame_size(&rest);
        const int64_t count = ma_dr_mp3_hdr_frame_samples(rest.at);
        ma_dr_mp3dec_decode_frame(&decoder, rest.at, (int)bytes, samples, &info);
        /* The decoder forgets the header of a damaged frame. A frame that lacks bits of those before it is silent. */
        if (decoder.header[0] == 0) break;
        const int64_t begin = done < 0 ? -done : 0;
        const int64_t end = frames - done < count ? frames - done : count;
        if (begin < end) {
            const float *from = samples + begin * channels;
            if (cf_mono(from, CF_PCM_F32, channels, end - begin, mono + done + begin) != 0) break;
        }
        done += end;
        skip(&rest, bytes);
    }
    return done < 0 ? 0 : done;
}
