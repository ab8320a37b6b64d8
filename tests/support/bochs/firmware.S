/*
 * The emulated machine's whole firmware, at 0xF0000: from reset to 64-bit mode with every vector register switched
 * on, then into the program that lies in memory already. There is no interrupt table: an exception is a triple fault,
 * which ends the emulation.
 */
#include "layout.h"

#define CR4_PAE (1 << 5)
#define CR4_OSFXSR (1 << 9)
#define CR4_OSXMMEXCPT (1 << 10)
#define CR4_OSXSAVE (1 << 18)
#define EFER 0xC0000080
#define EFER_SCE 1
#define EFER_LME (1 << 8)
#define STAR 0xC0000081
#define LSTAR 0xC0000082
#define SFMASK 0xC0000084
#define XCR0_X87_SSE_AVX 0x07
#define XCR0_AVX512 0xE0
#define CODE32 0x08
#define CODE64 0x10
#define DATA 0x18
#define PAGES_OF_1_GB 0x83 /* present, writable, a page of its own */

    .section .text
    .code16
start16:
    cli
    lgdtl %cs:gdt_place - FIRMWARE
    mov $1, %eax
    mov %eax, %cr0
    ljmpl $CODE32, $start32

    .code32
start32:
    mov $DATA, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    /* Bochs wrote the image into its own memory in one piece, but maps a block of 128 kB only when it is first
     * touched, to where its own memory goes on: so touch them in order. */
    mov $IMAGE, %esi
1:  mov (%esi), %eax
    add $0x20000, %esi
    cmp $MEMORY, %esi
    jb 1b
    /* One to one, the first four GB. Memory begins with anything in it. */
    mov $PAGE_TABLES, %edi
    mov $0x2000 / 4, %ecx
    xor %eax, %eax
    rep stosl
    movl $PAGE_TABLES + 0x1003, PAGE_TABLES
    movl $PAGES_OF_1_GB, PAGE_TABLES + 0x1000
    movl $PAGES_OF_1_GB + 0x40000000, PAGE_TABLES + 0x1008
    movl $PAGES_OF_1_GB + 0x80000000, PAGE_TABLES + 0x1010
    movl $PAGES_OF_1_GB + 0xC0000000, PAGE_TABLES + 0x1018
    mov $PAGE_TABLES, %eax
    mov %eax, %cr3
    mov $CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT | CR4_OSXSAVE, %eax
    mov %eax, %cr4
    mov $EFER, %ecx
    mov $EFER_SCE | EFER_LME, %eax
    xor %edx, %edx
    wrmsr
    mov $0x80000023, %eax /* paging, native x87 errors, WAIT checks, protection */
    mov %eax, %cr0
    ljmpl $CODE64, $start64

    .code64
start64:
    mov $7, %eax
    xor %ecx, %ecx
    cpuid
    mov $XCR0_X87_SSE_AVX, %eax
    bt $16, %ebx /* AVX512F */
    jnc 1f
    or $XCR0_AVX512, %eax
1:  xor %ecx, %ecx
    xor %edx, %edx
    xsetbv
    fninit
    mov $LSTAR, %ecx
    lea enter(%rip), %rax
    wrmsr
    mov $STAR, %ecx
    xor %eax, %eax
    mov $CODE64, %edx /* and the stack's segment is the one after it */
    wrmsr
    mov $SFMASK, %ecx
    xor %edx, %edx
    wrmsr
    mov ENTRY, %rax
    mov STACK, %rsp
    xor %edx, %edx /* nothing for the program to call at its end */
    jmp *%rax

/* A system call. Privileges never change, so the caller's stack goes on below its red zone. */
enter:
    lea -128(%rsp), %rsp
    push %rcx
    push %r11
    push %rdi
    push %rsi
    push %rdx
    push %r8
    push %r9
    push %r10
    mov %r10, %rcx
    mov %rax, %r8 /* the first four arguments, and the number as the fifth */
    mov %rsp, %r9
    push %rbp
    mov %rsp, %rbp
    and $-16, %rsp
    call system_call
    mov %rbp, %rsp
    pop %rbp
    pop %r10
    pop %r9
    pop %r8
    pop %rdx
    pop %rsi
    pop %rdi
    pop %r11
    pop %rcx
    lea 128(%rsp), %rsp
    jmp *%rcx

    .balign 8
gdt:
    .quad 0
    .quad 0x00CF9A000000FFFF /* CODE32 */
    .quad 0x00AF9A000000FFFF /* CODE64 */
    .quad 0x00CF92000000FFFF /* DATA */
gdt_place:
    .word . - gdt - 1
    .long gdt

    .section .reset, "ax"
    .code16
    ljmp $(FIRMWARE >> 4), $(start16 - FIRMWARE)
    .org 16
