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
static const unsigned char *pixels_of(const char *path, const unsigned char *data, size_t *length) {
    const unsigned char *at = data + 2, *end = data + *length;
    if (*length < 3 || data[0] != 'P' || (data[1] != '5' && data[1] != '6')) fail(path, "is no binary PPM or PGM");
    const unsigned width = read_number(&at, end), height = read_number(&at, end), most = read_number(&at, end);
    if (most != 255 || at == end) fail(path, "is no PPM or PGM of 8 bits");
    if (width != 8 || height != 8 || data[1] != '6') {
        fprintf(stderr, "predict: %s: the picture is %ux%u %s; the model takes %s\n", path, width, height,
                data[1] == '5' ? "grey" : "rgb", "8x8 rgb");
        exit(1);
    }
    at++; /* one space ends the header */
    *length = (size_t)(end - at);
    return at;
}

/* Fill `size` bytes from the file. */
static void read_feed(const char *path, const char *name, void *feed, size_t size, int is_picture) {
    size_t length;
    unsigned char *data = read_file(path, &length);
    const unsigned char *content = data;
    if (is_picture && length != size) content = pixels_of(path, data, &length);
    if (length != size) {
        fprintf(stderr, "predict: %s: %zu bytes; feed %s takes %zu\n", path, length, name, size);
        exit(1);
    }
    memcpy(feed, content, size);
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
