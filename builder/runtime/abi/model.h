/* The C ABI of a model compiled by coldforge, version 1.
 *
 * Describe it, open it, run it, close it. Any number of models may be open at once and run in
 * different threads; one opened model is used by one thread at a time. Tensors are dense, row-major
 * and little-endian, and need no particular alignment. No call allocates but cf_open; none exits,
 * prints or throws.
 */
#ifndef COLDFORGE_MODEL_H
#define COLDFORGE_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CF_ABI_VERSION 1u

typedef struct cf_model cf_model;

typedef struct {
    const void *data;
    size_t size; /* bytes; must be exactly the feed's */
} cf_feed;

typedef struct {
    void *data;
    size_t size; /* bytes; must be exactly the fetch's */
} cf_fetch;

typedef enum {
    CF_OK = 0,
    CF_ERR_CPU = 1,      /* this processor lacks an instruction set the model was compiled for */
    CF_ERR_MEMORY = 2,   /* the working memory could not be had */
    CF_ERR_ARGUMENT = 3, /* a null pointer, a wrong count or a wrong size; cf_last_error says which */
    CF_ERR_KERNEL = 4,   /* a compiled kernel reported an error */
    CF_ERR_WEIGHTS = 5   /* the weights are not there, or not this model's */
} cf_status;

/* CF_ABI_VERSION of the library; compare it before anything else. */
uint32_t cf_abi_version(void);

/* The model as JSON: name, version, feeds, fetches, labels, target. Valid while the library is loaded. */
const char *cf_describe(void);

/* Open the model for up to `threads` threads (0: choose). On success *model must be closed. */
cf_status cf_open(uint32_t threads, cf_model **model);

/* Libraries whose weights are a file of their own ("weights" in cf_describe says so) have two more. There, cf_open
 * takes model.weights in the library's folder.
 *
 * cf_open_file maps the file at `path`, read-only, until cf_close: whoever replaces it must rename a new one into
 * its place, not write into it. cf_open_memory takes the file's whole content from memory that is aligned to 64
 * bytes and stays as it is until cf_close. Both check that the weights are of this model and complete, not what is
 * in them. */
cf_status cf_open_file(uint32_t threads, const char *path, cf_model **model);
cf_status cf_open_memory(uint32_t threads, const void *data, size_t size, cf_model **model);

/* One inference. Feeds and fetches come in the order cf_describe lists them. The fetches are written
 * only if the result is CF_OK. Where cf_describe lists several "batches" or "shapes", the sizes choose one of them:
 * those of the feeds and fetches it lists are for the first batch, the others' are in proportion. */
cf_status cf_run(cf_model *model, const cf_feed *feeds, size_t feed_count,
                 const cf_fetch *fetches, size_t fetch_count);

/* Libraries of several signatures ("signatures" in cf_describe lists those after the first) have this one more: the
 * runs of `model` that follow are of the signature `name`; NULL is the first, which they are of until then. */
cf_status cf_set_signature(cf_model *model, const char *name);

/*
 * Some models have state: variables that cf_run reads and writes, which last from one run to the next (cf_describe
 * lists them under "states"; most models have none, and then there is nothing to copy). Each opened model has its own.
 * A run that fails leaves it as it was.
 */

/* Back to the state that the model was opened with, its random generator's included. */
cf_status cf_reset(cf_model *model);

/* Copy the state out of the model, or into it: the variables as cf_describe lists them, `size` bytes together. */
cf_status cf_get_state(cf_model *model, void *data, size_t size);
cf_status cf_set_state(cf_model *model, const void *data, size_t size);

/* Give back what cf_open took. NULL is fine. */
void cf_close(cf_model *model);

/* Why the last call on `model` failed, or, for NULL, why the last cf_open failed. Never NULL; valid
 * until the next call on `model`. */
const char *cf_last_error(const cf_model *model);
/*@FLAT@*/
#ifdef __cplusplus
}
#endif

#endif
