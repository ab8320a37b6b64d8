/* Integer GEMM for one instruction set: compiled once for each, with CF_TABLE as this copy's name. */
#include "abi/program.h"
#include "fused/integer_depthwise.h"
#include "fused/integer_gemm.h"

#ifndef CF_TABLE
#define CF_TABLE cf_integer_v3
#endif

#if CF_TILES /* the copy for layers that tiles are not worth their while for */
void CF_WITHOUT_TILES(cf_context *context, const cf_layer *layer, const cf_layer_data *data);
#endif

void CF_TABLE(cf_context *context, const cf_layer *layer, const cf_layer_data *data);
void CF_TABLE(cf_context *context, const cf_layer *layer, const cf_layer_data *data) {
    cf_halos halos = {.count = 0};
    if (layer->algorithm == CF_INTEGER_DEPTHWISE) {
        add_layer_halos(&halos, layer, data);
        run_integer_depthwise(context, layer, data, &halos);
        return;
    }
    const cf_layer wide = join_pixels(layer);
#if CF_TILES
    if (!worth_tiles(&wide)) {
        CF_WITHOUT_TILES(context, layer, data);
        return;
    }
#endif
    if (layer->algorithm == CF_INTEGER_WINOGRAD4 && CF_FORM == CF_PAIRS) { /* it saves more than pairs do */
        context->fused->layer(context, layer, data);
        return;
    }
    add_layer_halos(&halos, layer, data);
    run_integer_gemm(context, &wide, data, &halos);
}
