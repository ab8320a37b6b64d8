/* The weights, as they stand in weights.bin: SHA-256 ba406221006a926447aa4fc1e17a32d650052bc856ab4bcc91b8cd2256af5adf. */
    .section .rodata.cf_weights,"a"
    .balign 64
    .globl cf_weights
    .hidden cf_weights
    .type cf_weights, %object
cf_weights:
    .incbin "weights.bin"
.Lend:
    .size cf_weights, .Lend - cf_weights
    .section .note.GNU-stack,"",%progbits
