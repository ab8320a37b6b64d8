/*
 * The fused kernels for one instruction set: compiled once for each, with CF_TABLE naming the table that
 * this copy defines.
 */
#include "fused/direct.h"
#include "fused/pooling.h"
#if CF_HAS_CONVOLUTIONS
#include "fused/depthwise.h"
#include "fused/thin.h"
#include "fused/winograd.h"
#endif
#if CF_HAS_INTEGER
#include "fused/integer_addition.h"
#else
#define run_addition NULL
#endif
#if CF_HAS_NORM
#include "fused/normalise.h"
#else
#define run_norm NULL
#endif
#if CF_HAS_RECURRENT
#include "fused/recurrent.h"
#else
#define run_recurrent NULL
#endif

#ifndef CF_TABLE
#define CF_TABLE cf_fused_v3
#endif

static void run_layer(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    cf_halos halos = {.count = 0};
    add_layer_halos(&halos, layer, data);
    switch (layer->algorithm) {
    case CF_DIRECT: run_direct(context, layer, data, &halos); break;
    case CF_INTEGER:
    case CF_INTEGER_DEPTHWISE: break; /* never here: see integer.c */
#if CF_HAS_CONVOLUTIONS
    case CF_DEPTHWISE: run_depthwise(context, layer, data, &halos); break;
    case CF_WINOGRAD2: run_winograd(context, layer, data, 2, &halos); break;
    case CF_WINOGRAD4: run_winograd(context, layer, data, 4, &halos); break;
    case CF_THIN: run_thin(context, layer, data, &halos); break;
    case CF_INTEGER_WINOGRAD4: run_winograd(context, layer, data, 4, &halos); break; /* where integer.c passes it on */
#else
    default: break;
#endif
    }
}

const cf_fused CF_TABLE = {run_layer, run_pool, run_repack, run_norm, run_recurrent, run_addition};
