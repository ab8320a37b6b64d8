/* FLAC, decoded by dr_flac, whose licence stands in its file. */
#include "audio/audio.h"

#define EXPORT __attribute__((visibility("default")))

#define DR_FLAC_IMPLEMENTATION
#define DR_FLAC_NO_STDIO
#define DR_FLAC_NO_OGG
#define DRFLAC_ASSERT(expression) ((void)0)
#include "audio/dr_flac.h"

enum { MOST_CHANNELS = 8, CHUNK = 512 };

/* Whether there is a next frame, and it is whole. dr_flac itself goes past those that are not: a file of nothing else
 * would take long, and give nothing that is counted. */
static int next_frame(drflac *decoder) {
    drflac_frame_header *header = &decoder->currentFLACFrame.header;
    return drflac__read_next_flac_frame_header(&decoder->bs, decoder->bitsPerSample, header) &&
           drflac__decode_flac_frame(decoder) == DRFLAC_SUCCESS;
}

EXPORT int64_t cf_flac_read(const void *file, size_t size, int64_t frames, float *mono) {
    drflac *decoder = drflac_open_memory(file, size, NULL);
    if (!decoder) return -1;
    int64_t done = 0;
    const int channels = decoder->channels;
    while (channels <= MOST_CHANNELS && done < frames) {
        const int64_t left = decoder->currentFLACFrame.pcmFramesRemaining;
        if (left == 0 && next_frame(decoder)) continue;
        int64_t wanted = frames - done < left ? frames - done : left;
        if (wanted > CHUNK) wanted = CHUNK;
        drflac_int32 chunk[CHUNK * MOST_CHANNELS];
        if (wanted == 0 || drflac_read_pcm_frames_s32(decoder, (drflac_uint64)wanted, chunk) == 0) break;
        if (mono) cf_mono(chunk, CF_PCM_S32, channels, wanted, mono + done);
        done += wanted;
    }
    drflac_close(decoder);
    return done;
}
