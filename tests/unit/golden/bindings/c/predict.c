/* predict photo.ppm: runs brightness 7 on files and prints its answer.
 *
 * A file holds a feed's raw bytes, or a picture of 8x8 as binary PPM or PGM.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brightness.h"

static void fail(const char *what, const char *why) {
    fprintf(stderr, "predict: %s: %s\n", what, why);
    exit(1);
}

static unsigned char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail(path, "cannot be opened");
    unsigned char *data = NULL;
    size_t room = 0;
    *size = 0;
    do {
        room = room == 0 ? 65536 : 2 * room;
        data = realloc(data, room);
        if (data == NULL) fail(path, "is too large for this machine's memory");
        *size += fread(data + *size, 1, room - *size, file);
    } while (*size == room);
    if (ferror(file)) fail(path, "cannot be read");
    fclose(file);
    return data;
}

/* Pixels of 8 bits, row by row: one byte each for grey (1 or 2 channels) or red, green and blue (3 or 4), and opacity. */
typedef struct {
    unsigned width, height, channels;
    unsigned char *bytes;
} picture;

static unsigned char *room_for(const char *path, size_t size) {
    unsigned char *bytes = malloc(size + 1);
    if (bytes == NULL) fail(path, "is too large for this machine's memory");
    return bytes;
}

static void require_fit(const char *path, unsigned width, unsigned height, const char *mode) {
    if (width == 8 && height == 8 && strcmp(mode, "rgb") == 0) return;
    fprintf(stderr, "predict: %s: the picture is %ux%u %s; the model takes %s\n", path, width, height, mode,
            "8x8 rgb");
    exit(1);
}

#ifdef WITH_JPEG
#include <jpeglib.h>

static void jpeg_failed(j_common_ptr codec) {
    char why[JMSG_LENGTH_MAX];
    codec->err->format_message(codec, why);
    fail(codec->client_data, why);
}

static void jpeg_warned(j_common_ptr codec, int level) {
    if (level < 0) jpeg_failed(codec); /* a damaged picture */
}

static picture read_jpeg(const char *path, const unsigned char *data, size_t length) {
    struct jpeg_decompress_struct codec;
    struct jpeg_error_mgr errors;
    codec.err = jpeg_std_error(&errors);
    errors.error_exit = jpeg_failed;
    errors.emit_message = jpeg_warned;
    codec.client_data = (void *)path;
    jpeg_create_decompress(&codec);
    jpeg_mem_src(&codec, (unsigned char *)data, (unsigned long)length);
    jpeg_read_header(&codec, TRUE);
    require_fit(path, codec.image_width, codec.image_height, "rgb");
    codec.out_color_space = codec.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&codec);
    picture found = {codec.output_width, codec.output_height, (unsigned)codec.output_components, NULL};
    const size_t row = (size_t)found.width * found.channels;
    found.bytes = room_for(path, row * found.height);
    while (codec.output_scanline < codec.output_height) {
        JSAMPROW at = found.bytes + row * codec.output_scanline;
        jpeg_read_scanlines(&codec, &at, 1);
    }
    jpeg_finish_decompress(&codec);
    jpeg_destroy_decompress(&codec);
    return found;
}
#endif

#ifdef WITH_PNG
#include <png.h>

static picture read_png(const char *path, const unsigned char *data, size_t length) {
    png_image image = {0};
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&image, data, length)) fail(path, image.message);
    require_fit(path, image.width, image.height, "rgb");
    image.format = image.format & PNG_FORMAT_FLAG_COLOR ? PNG_FORMAT_RGBA : PNG_FORMAT_GA;
    picture found = {image.width, image.height, PNG_IMAGE_SAMPLE_CHANNELS(image.format), NULL};
    found.bytes = room_for(path, PNG_IMAGE_SIZE(image));
    if (!png_image_finish_read(&image, NULL, found.bytes, 0, NULL)) fail(path, image.message);
    return found;
}
#endif

#if defined WITH_JPEG || defined WITH_PNG
/* The pixels in the model's colours; opacity is left out. Grey is weighed as ITU-R BT.601 has it. */
static unsigned char *in_model_colours(const char *path, picture from, size_t *length) {
    const unsigned wanted = 3;
    const size_t count = (size_t)from.width * from.height;
    unsigned char *pixels = room_for(path, wanted * count);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *rgb = from.bytes + i * from.channels;
        if (from.channels < 3)
            memset(pixels + i * wanted, rgb[0], wanted);
        else if (wanted == 3)
            memcpy(pixels + i * wanted, rgb, wanted);
        else
            pixels[i] = (unsigned char)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 32768u) >> 16);
    }
    *length = wanted * count;
    free(from.bytes);
    return pixels;
}
#endif

#if defined WITH_JPEG && defined WITH_PNG
#define OTHER "is no binary PPM or PGM, and neither JPEG nor PNG"
#else
#define OTHER "is no binary PPM or PGM; `make` with libjpeg and libpng builds a program that reads JPEG and PNG"
#endif

/* A number of the header, after space and comments; 0 if there is none. */
static unsigned read_number(const unsigned char **at, const unsigned char *end) {
    while (*at < end && (**at == '#' || **at == ' ' || (**at >= '\t' && **at <= '\r'))) {
        if (**at == '#')
            while (*at < end && **at != '\n') (*at)++;
        else
            (*at)++;
    }
    unsigned number = 0;
    while (*at < end && **at >= '0' && **at <= '9' && number < 100000) number = 10 * number + (unsigned)(*(*at)++ - '0');
    return number;
}

/* The pixels of a binary PPM (P6) or PGM (P5), which must have the model's size and colours. */
static unsigned char *read_ppm(const char *path, const unsigned char *data, size_t *length) {
    const unsigned char *at = data + 2, *end = data + *length;
    if (*length < 3 || data[0] != 'P' || (data[1] != '5' && data[1] != '6')) fail(path, OTHER);
    const unsigned width = read_number(&at, end), height = read_number(&at, end), most = read_number(&at, end);
    if (most != 255 || at == end) fail(path, "is no PPM or PGM of 8 bits");
    require_fit(path, width, height, data[1] == '5' ? "grey" : "rgb");
    at++; /* one space ends the header */
    *length = (size_t)(end - at);
    return memcpy(room_for(path, *length), at, *length);
}

/* The pixels of a picture of the model's size; whoever asks frees them. */
static unsigned char *pixels_of(const char *path, const unsigned char *data, size_t *length) {
#ifdef WITH_JPEG
    if (*length > 2 && memcmp(data, "\xff\xd8\xff", 3) == 0)
        return in_model_colours(path, read_jpeg(path, data, *length), length);
#endif
#ifdef WITH_PNG
    if (*length > 3 && memcmp(data, "\x89PNG", 4) == 0)
        return in_model_colours(path, read_png(path, data, *length), length);
#endif
    return read_ppm(path, data, length);
}

/* Fill `size` bytes from the file. */
static void read_feed(const char *path, const char *name, void *feed, size_t size, int is_picture) {
    size_t length;
    unsigned char *data = read_file(path, &length);
    if (is_picture && length != size) {
        unsigned char *pixels = pixels_of(path, data, &length);
        free(data);
        data = pixels;
    }
    if (length != size) {
        fprintf(stderr, "predict: %s: %zu bytes; feed %s takes %zu\n", path, length, name, size);
        exit(1);
    }
    memcpy(feed, data, size);
    free(data);
}

static void print_classes(const char *name, const brightness_class *classes, size_t count) {
    printf("%s:", name);
    for (size_t i = 0; i < count; i++) printf("%s %s %.6f", i ? "," : "", classes[i].label, classes[i].probability);
    printf("\n");
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: predict photo.ppm\n");
        return 2;
    }
    brightness_feeds *feeds = calloc(1, sizeof *feeds);
    brightness_fetches *fetches = calloc(1, sizeof *fetches);
    if (feeds == NULL || fetches == NULL) fail("brightness", "not enough memory");
    read_feed(arguments[1], "image", feeds->image, 192u, 1);

    if (cf_abi_version() != CF_ABI_VERSION) fail("libmodel", "has another version of the C ABI than model.h");
    cf_model *model;
    if (cf_open(0, &model) != CF_OK) fail("cf_open", cf_last_error(NULL));
    if (brightness_run(model, feeds, fetches) != CF_OK) fail("cf_run", cf_last_error(model));
    cf_close(model);

    for (size_t item = 0; item < BRIGHTNESS_ITEMS_TONE; item++) {
        brightness_class classes[BRIGHTNESS_TOP_TONE];
        brightness_rank_tone(fetches, item, classes);
        print_classes("tone", classes, BRIGHTNESS_TOP_TONE);
    }
    fputs("level:", stdout);
    for (size_t i = 0; i < 1; i++) printf(" %.6f", (double)fetches->level[i]);
    puts("");
    fputs("pixels:", stdout);
    for (size_t i = 0; i < 8; i++) printf(" %llu", (unsigned long long)fetches->pixels[i]);
    puts(" ...");
    free(feeds);
    free(fetches);
    return 0;
}
