/* The C ABI of a model compiled by coldforge, version 1.
 *
 * Describe it, open it, run it, close it. Any number of models may be open at once and run in
 * different threads; one opened model is used by one thread at a time. While one is in a call on
 * it, other calls on it do nothing and return CF_ERR_BUSY, cf_close among them. Tensors are dense,
 * row-major and little-endian, and need no particular alignment. Only cf_open allocates memory; no
 * call exits, prints or throws.
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
    CF_ERR_MEMORY = 2,   /* the working memory could not be allocated */
    CF_ERR_ARGUMENT = 3, /* a null pointer, a wrong count or a wrong size; cf_last_error says which */
    CF_ERR_KERNEL = 4,   /* a compiled kernel reported an error */
    CF_ERR_WEIGHTS = 5,  /* the weights are missing, or not this model's */
    CF_ERR_SIZE = 6,     /* an answer whose size the data decides is larger than its fetch */
    CF_ERR_RANGE = 7,    /* an index in a feed is out of range; cf_last_error says which */
    CF_ERR_BUSY = 8      /* another thread is in a call on the model; cf_last_error is of that call */
} cf_status;

/* CF_ABI_VERSION of the library; compare it before anything else. */
uint32_t cf_abi_version(void);

/* The model as JSON: name, version, feeds, fetches, labels, target. Valid while the library is loaded. */
const char *cf_describe(void);

/* Open the model for up to `threads` threads (0: choose). On success *model must be closed. */
cf_status cf_open(uint32_t threads, cf_model **model);

/* If the weights are in a file of their own ("weights" in cf_describe says so), the library has two more functions,
 * and cf_open takes model.weights from the library's folder.
 *
 * cf_open_file maps the file at `path`, read-only, until cf_close. Never edit that file in place; running callers would
 * see the change. Rename a new file into its place. cf_open_memory takes the file's whole content from memory, which
 * must be aligned to 64 bytes and stay unchanged until cf_close. Both check that the weights are complete and of this
 * model; they do not check the numbers. */
cf_status cf_open_file(uint32_t threads, const char *path, cf_model **model);
cf_status cf_open_memory(uint32_t threads, const void *data, size_t size, cf_model **model);

/* One inference. Feeds and fetches come in the order in which cf_describe lists them, and do not overlap. The fetches
 * hold the answer only if the result is CF_OK. If cf_describe lists several "batches" or "shapes", the sizes of feeds
 * and fetches choose one. The sizes that cf_describe gives are those of the first; the sizes of other batches are in
 * proportion.
 *
 * Where a fetch has a "shape_fetch" in cf_describe, the data decides its size. Its "shape" and "bytes" are then the
 * most that it can have. The fetch of that name, int32 [rank], comes next and gets the shape that it has this time. The
 * elements that are there come first, row-major in that shape, and zeros after them.
 *
 * Where a feed has a "minimum" and "maximum" in cf_describe, its elements are indices, and a run with another one is
 * CF_ERR_RANGE. "ranges" has them where not all elements have the same: of "count" elements from "first" on, and again
 * after each "period" of elements. A floating-point index is rounded toward zero. */
cf_status cf_run(cf_model *model, const cf_feed *feeds, size_t feed_count,
                 const cf_fetch *fetches, size_t fetch_count);

/* A library of several signatures has this function too ("signatures" in cf_describe lists those after the first).
 * Later runs of `model` use the signature `name`. NULL is the first signature, which is the default. */
cf_status cf_set_signature(cf_model *model, const char *name);

/*
 * Some models have state: variables that cf_run reads and writes, and that last from one run to the next. cf_describe
 * lists them under "states". Most models have none, and then there is nothing to copy. Each opened model has its own
 * state. A run that fails leaves it unchanged.
 */

/* Back to the state that the model was opened with, its random generator's included. */
cf_status cf_reset(cf_model *model);

/* Copy the state out of the model, or into it: the variables as cf_describe lists them, `size` bytes together. */
cf_status cf_get_state(cf_model *model, void *data, size_t size);
cf_status cf_set_state(cf_model *model, const void *data, size_t size);

/* Free what cf_open took. NULL is allowed. CF_ERR_BUSY: another thread is in a call on the model, and nothing was
 * freed; close it after that call. No call may begin on a model that is being closed. */
cf_status cf_close(cf_model *model);

/* Why the last call on `model` failed, or, for NULL, why the last cf_open failed. Never NULL; valid
 * until the next call on `model`. */
const char *cf_last_error(const cf_model *model);
/*@FLAT@*/
#ifdef __cplusplus
}
#endif

#endif
