/* Attention for one instruction set: compiled once for each, with CF_TABLE as this copy's name. */
#include "fused/attention.h"

#ifndef CF_TABLE
#define CF_TABLE cf_attention_v3
#endif

void CF_TABLE(cf_context *context, const cf_attention *attention, const cf_attention_data *data);
void CF_TABLE(cf_context *context, const cf_attention *attention, const cf_attention_data *data) {
    run_attention(context, attention, data);
}
