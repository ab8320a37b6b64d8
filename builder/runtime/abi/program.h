/* What a generated program.c provides to the runtime, and what it may use from it. */
#ifndef COLDFORGE_PROGRAM_H
#define COLDFORGE_PROGRAM_H

#include "fused/fused.h"
#include "ops/kernels.h"
#include "abi/model.h"
#include "platform/threads.h"
#include "trees/trees.h"

/* The frame XLA's CPU kernels take (xla/backends/cpu/runtime/kernel_c_api.h): sizes have 64 bits everywhere. */
typedef struct {
    uint64_t x, y, z;
} cf_dim3;

typedef struct {
    void *data;
    uint64_t size;
} cf_kernel_argument;

typedef struct {
    const cf_dim3 *workgroups;
    const cf_dim3 *workgroup;
    uint64_t argument_count;
    const cf_kernel_argument *arguments;
} cf_call_frame;

/* Returns NULL, or an opaque error. */
typedef void *(*cf_kernel)(const cf_call_frame *frame);

/* What one opened model has: its arena, its random generator and its threads. */
struct cf_context {
    uint8_t *arena;
    const uint8_t *weights;
    uint64_t rng_low, rng_high;
    cf_pool *pool;         /* NULL for one thread */
    const cf_fused *fused; /* kernels for this CPU; NULL if the program uses none */
    cf_integer_layer integer; /* integer GEMM for this CPU; NULL if the program uses none */
    cf_attention_layer attention; /* attention for this CPU; NULL if the program has none */
    cf_trees_layer trees;  /* ensembles of trees for this CPU; NULL if the program has none */
    uint8_t *state;        /* variables that last from run to run; NULL if the program has none */
    const cf_feed *feeds;  /* of this run: some steps read them where the caller has them */
    size_t part;           /* which input of a batch in parts the steps are for; else 0 */
};

/* Where something lies. CF_IN_FEED: where the caller has it. */
typedef enum { CF_IN_ARENA, CF_IN_WEIGHTS, CF_IN_FEED } cf_space;

/* What offsets into `space`, the arena or the weights, count from. */
static inline const uint8_t *cf_start_of(const cf_context *context, cf_space space) {
    return space == CF_IN_WEIGHTS ? context->weights : context->arena;
}

/* A variable that the program reads and writes. All offsets and sizes are bytes. */
typedef struct {
    size_t offset, size; /* in the state */
    size_t read, write;  /* in the arena: where it is before the steps, and after them */
    int constant;        /* after the steps it lies in the weights: the program always writes the same */
    size_t first;        /* in the weights: its value when the model is opened */
} cf_state;

typedef struct {
    const char *name;
    size_t offset; /* bytes into its space */
    size_t size;   /* bytes */
    cf_space space;
} cf_port;

/* Indices in a feed: `count` elements from `first` on, and again after each `period`. */
typedef struct {
    size_t feed; /* its number */
    cf_dtype dtype;
    size_t elements, first, count, period;
    int64_t minimum, maximum;
} cf_range;

#ifdef CF_DYNAMIC /* the ABI's sources and the generated ones, where the data decides the size of a fetch */
/* Such a fetch. What is there lies at its beginning; the fetch after it, int32 [rank], says how much that is. */
typedef struct {
    size_t fetch; /* its number */
    size_t item;  /* bytes of one element */
    uint32_t rank;
    const int32_t *most; /* of each dimension */
} cf_dynamic;
#endif

/* What weights that are not in the library must be. `open` is cf_open: with the file beside the library. */
typedef struct {
    uint8_t layout[32]; /* SHA-256 of the program that reads them; see builder/compiler/emit/write_weights.py */
    uint64_t size;      /* bytes */
    cf_status (*open)(uint32_t threads, cf_model **model);
    void (*unmap)(void *mapping, size_t size);
} cf_outside;

#ifdef CF_PARTS
/* Layers that a batch in parts runs for all inputs together: see builder/compiler/lower/microbatch.py. All sizes are bytes. */
typedef struct {
    cf_status (*head)(cf_context *context), (*tail)(cf_context *context); /* the steps before and behind, of one input */
    void (*layers)(cf_context *context, size_t inputs, uint8_t *values);
    size_t input, input_size, output, output_size; /* of one input, in its arena */
    size_t before; /* of an input's values, what lies before the output: `values` begin with all inputs' input */
} cf_dense_end;
#endif

typedef struct cf_program {
    const char *description;
    const uint8_t *weights;    /* NULL: outside the library */
    const cf_outside *outside; /* NULL: in the library */
    size_t arena_size;         /* of the largest program */
    size_t arena_touched;      /* how much of its beginning every run of the first program touches */
    const struct cf_program *const *others; /* the model in other batches, sizes, signatures; of the first program */
    size_t other_count;
    const char *const *signatures; /* names, where there are several; of the first program */
    size_t signature_count;
    size_t signature; /* that this program is of */
    const cf_port *feeds;
    size_t feed_count;
    const cf_port *fetches;
    size_t fetch_count;
    const cf_range *ranges;
    size_t range_count;
    const cf_state *states;
    size_t state_count;
    size_t state_size; /* bytes */
    const cf_fused *const *fused; /* cf_fused_tables, if the program has fused layers */
    const cf_integer_layer *integer; /* cf_integer_tables, if it has some of CF_INTEGER */
    const cf_attention_layer *attention; /* cf_attention_tables, if it has attention */
    const cf_trees_layer *trees;         /* cf_trees_tables, if it has ensembles of trees */
    cf_status (*run)(cf_context *context);
#ifdef CF_DYNAMIC
    const cf_dynamic *dynamic;
    size_t dynamic_count;
#endif
#ifdef CF_PARTS /* likewise, where a program runs a batch in parts */
    size_t parts;                  /* the steps are for one: they run so often. 0: they are for all */
    const struct cf_program *part; /* that has the steps, and the places of one part's feeds and fetches; NULL: this */
    size_t part_arena_size;        /* of the largest program with parts; of the first program */
    const cf_dense_end *dense_end; /* of the program that has the steps; NULL: it has none */
    size_t values;                 /* in the arena: where the dense end's begin */
#endif
} cf_program;

extern const cf_program cf_compiled_program;
extern const uint8_t cf_weights[];

/* Keep `why`, which stays valid, for cf_last_error(NULL), and return `status`. */
cf_status cf_refuse_open(const char *why, cf_status status);

#ifdef CF_DYNAMIC
/* After a run: clear what lies behind the elements that are there. CF_ERR_SIZE, with the reason in `error`, if there
 * are more than the fetch takes. */
cf_status cf_trim(const cf_program *program, const cf_context *context, char *error, size_t capacity);
#endif

#ifdef CF_PARTS
/*
 * Contexts for the threads beside the caller's, each with an arena of its own. NULL where there is only one thread, or
 * no memory for more: then parts run one after another.
 */
cf_context *cf_part_contexts_new(const cf_context *context);
void cf_part_contexts_free(cf_context *contexts, uint32_t threads);

/* Run a program with parts, side by side on the threads that have `contexts`. */
cf_status cf_run_parts(const cf_program *program, cf_context *context, cf_context *contexts, const cf_feed *feeds,
                       const cf_fetch *fetches);
#endif

/* arena.c: memory for a program's buffers, whose beginning is `touched`, so that it is there; NULL if out of memory. */
uint8_t *cf_arena_new(size_t size, size_t touched);

/* cf_open with these weights. Where `mapping` is not NULL, cf_close unmaps its `mapped` bytes. */
cf_status cf_open_with(uint32_t threads, const uint8_t *weights, void *mapping, size_t mapped, cf_model **model);

/* cf_open with the file "model.weights" in the library's own folder. */
cf_status cf_open_beside(uint32_t threads, cf_model **model);

void cf_unmap(void *mapping, size_t size);

/* Call a kernel once for every work group, on all threads if there are several groups. */
cf_status cf_call_kernel(cf_context *context, cf_kernel kernel, const cf_kernel_argument *arguments,
                         size_t count, uint64_t x, uint64_t y, uint64_t z);

/* cf_run_dot, the matrices of a batch on all threads. */
void cf_call_dot(cf_context *context, const cf_dot *dot, const void *lhs, const void *rhs, void *out);

/* cf_run_broadcast for all rows, on all threads. */
void cf_call_broadcast(cf_context *context, const cf_broadcast *broadcast, const void *source, const void *other,
                       void *target);

/* Layers that run a stripe of rows at a time: see CascadeStep in builder/compiler/lower/steps/cascade_step.py. */
typedef struct {
    int64_t count, rows; /* layers, and rows of the last one's output in a stripe */
    const cf_layer *layers;
    const size_t *rolling; /* [count - 1]: bytes of a thread's rolling buffer behind each layer but the last */
    const size_t *scratch; /* [count]: bytes of a thread's scratch; NULL: no layer has any */
    void (*step)(const cf_context *context, uint32_t number); /* is told that a layer begins, or NULL */
    uint32_t first_step;                                      /* the number of the first layer for that */
} cf_cascade;

/* Run a cascade. `data`: of each layer, whose rolling buffers and scratch are those of the first thread. */
void cf_run_cascade(cf_context *context, const cf_cascade *cascade, const cf_layer_data *data);

/* Store the 128-bit state (low word first), then add delta (XLA's RngGetAndUpdateState). */
void cf_advance_rng(cf_context *context, void *state, uint64_t delta);

/* cf_run on one model that is opened at the first call and shared by all callers: what run() calls. */
cf_status cf_run_shared(const cf_feed *feeds, size_t feed_count, const cf_fetch *fetches,
                        size_t fetch_count);

/* NULL, or the first instruction set this processor or its operating system lacks. */
const char *cf_missing_cpu_feature(void);

/* The fused kernels for each level of the architecture, and the highest level this processor has. */
extern const cf_fused *const cf_fused_tables[];
extern const cf_integer_layer cf_integer_tables[];
extern const cf_attention_layer cf_attention_tables[];
extern const cf_trees_layer cf_trees_tables[];
uint32_t cf_cpu_level(void);

/* The level, up to this one, whose integer kernels the system lets this process run. It may ask the system for it. */
uint32_t cf_permitted_level(uint32_t level);

#endif
