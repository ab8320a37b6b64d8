/* Weights outside the library: a file that is mapped, or memory that the caller has filled with its content. */
#define _GNU_SOURCE
#include "abi/program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define ALIGNMENT 64u
#define FILE_NAME "model.weights"
#define FORMAT 1u

/* The beginning of the file, little-endian; builder/compiler/emit/write_weights.py writes it. */
typedef struct {
    char magic[8];
    uint32_t format;
    uint32_t start; /* of the weights, from the file's beginning; what lies between is for whoever transfers the file */
    uint64_t size;  /* of the weights, bytes */
    uint8_t layout[32];
} header;

/* Returns what is wrong with a file's content, or NULL. */
static const char *fault(const uint8_t *data, size_t size) {
    const cf_outside *wanted = cf_compiled_program.outside;
    header head;
    if (size < sizeof head) return "the weights file is no weights file of coldforge's";
    memcpy(&head, data, sizeof head);
    if (memcmp(head.magic, "CFWEIGHT", sizeof head.magic) != 0)
        return "the weights file is no weights file of coldforge's";
    if (head.format != FORMAT) return "the weights file is of another version of coldforge";
    if (memcmp(head.layout, wanted->layout, sizeof head.layout) != 0)
        return "the weights are another model's, or of another build of this one";
    if (head.size != wanted->size || head.start < sizeof head || head.start > size ||
        size - head.start < head.size || head.start % ALIGNMENT != 0)
        return "the weights file is incomplete";
    return NULL;
}

static const uint8_t *weights_of(const uint8_t *data) {
    header head;
    memcpy(&head, data, sizeof head);
    return data + head.start;
}

static const char *why_not_open(int number) {
    if (number == ENOENT) return "the weights file is not there";
    if (number == EMFILE || number == ENFILE) return "the weights file cannot be opened: too many files are open";
    return "the weights file may not be read";
}

void cf_unmap(void *mapping, size_t size) { (void)munmap(mapping, size); }

EXPORT cf_status cf_open_memory(uint32_t threads, const void *data, size_t size, cf_model **model) {
    if (model == NULL) return cf_refuse_open("cf_open_memory: model is NULL", CF_ERR_ARGUMENT);
    *model = NULL;
    if (data == NULL || (uintptr_t)data % ALIGNMENT != 0)
        return cf_refuse_open("cf_open_memory: the weights are not aligned to 64 bytes", CF_ERR_ARGUMENT);
    const char *why = fault(data, size);
    if (why != NULL) return cf_refuse_open(why, CF_ERR_WEIGHTS);
    return cf_open_with(threads, weights_of(data), NULL, 0, model);
}

EXPORT cf_status cf_open_file(uint32_t threads, const char *path, cf_model **model) {
    if (path == NULL || model == NULL) return cf_refuse_open("cf_open_file: a pointer is NULL", CF_ERR_ARGUMENT);
    *model = NULL;
    int file;
    do file = open(path, O_RDONLY | O_CLOEXEC);
    while (file < 0 && errno == EINTR);
    if (file < 0) return cf_refuse_open(why_not_open(errno), CF_ERR_WEIGHTS);
    struct stat about;
    void *mapping = MAP_FAILED;
    size_t size = 0;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        size = (size_t)about.st_size;
        mapping = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    }
    const int no_memory = size != 0 && mapping == MAP_FAILED && errno == ENOMEM;
    (void)close(file);
    if (no_memory) return cf_refuse_open("not enough memory to map the weights file", CF_ERR_MEMORY);
    if (mapping == MAP_FAILED) return cf_refuse_open("the weights file cannot be mapped", CF_ERR_WEIGHTS);
    const char *why = fault(mapping, size);
    if (why != NULL) {
        (void)munmap(mapping, size);
        return cf_refuse_open(why, CF_ERR_WEIGHTS);
    }
    const cf_status status = cf_open_with(threads, weights_of(mapping), mapping, size, model);
    if (status != CF_OK) cf_unmap(mapping, size);
    return status;
}

cf_status cf_open_beside(uint32_t threads, cf_model **model) {
    char path[4096] = "";
    Dl_info library;
    if (dladdr((const void *)&cf_compiled_program, &library) != 0 && library.dli_fname != NULL) {
        const char *slash = strrchr(library.dli_fname, '/');
        const int folder = slash != NULL ? (int)(slash - library.dli_fname) + 1 : 0;
        const int length = snprintf(path, sizeof path, "%.*s%s", folder, library.dli_fname, FILE_NAME);
        if (length < 0 || (size_t)length >= sizeof path) path[0] = '\0';
    }
    return cf_open_file(threads, path, model);
}
