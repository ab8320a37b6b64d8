/* Where things lie in the emulated machine's memory; machine.py has the same numbers. */
#define PAGE_TABLES 0x10000
#define FIRMWARE 0xF0000
#define IMAGE 0x100000 /* begins with these four */
#define ENTRY 0x100000
#define STACK 0x100008
#define HEAP 0x100010
#define HEAP_END 0x100018
#define MEMORY 0x40000000
