/* The weights, as they stand in weights.bin: nothing to parse, copy or relocate at load. */
    .section .rodata.cf_weights,"a"
    .balign 64
    .globl cf_weights
    .hidden cf_weights
    .type cf_weights, %object
cf_weights:
    .incbin "weights.bin"
    .size cf_weights, . - cf_weights
    .section .note.GNU-stack,"",%progbits
