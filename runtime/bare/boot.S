/* Boot sector of a program without an operating system: loads the program from the sectors behind it, switches to
   64-bit mode with AVX enabled, and calls the program's start. It is sector 0 of a disk whose first sectors
   mavcg/bare_x86.py lays out; that module also fills in `header`. */
    .equ PROGRAM, 0x10000
    .equ TABLES, 0x1000
    .equ STACK_TOP, 0x8000000
    .equ CHUNK, 64              /* sectors per BIOS read: half a segment */

    .code16
    .globl _start
    .section .boot, "ax"
_start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw $0x7c00, %sp
    inb $0x92, %al              /* enable address line 20 */
    orb $2, %al
    outb %al, $0x92
    movw program_sectors, %cx
    shrw $6, %cx
1:  movw $packet, %si
    movb $0x42, %ah
    movb $0x80, %dl
    pushw %cx
    int $0x13
    popw %cx
    jc dead
    addw $(CHUNK * 32), packet_segment
    addl $CHUNK, packet_sector
    loop 1b

    movl $TABLES, %edi          /* page tables: identity mapping of the first GiB, in pages of 2 MiB */
    movl %edi, %cr3
    xorl %eax, %eax
    movl $0xc00, %ecx
    rep stosl
    movl $(TABLES + 0x1003), TABLES
    movl $(TABLES + 0x2003), TABLES + 0x1000
    movl $(TABLES + 0x2000), %edi
    movl $0x83, %eax
    movl $512, %ecx
2:  movl %eax, (%di)
    addl $0x200000, %eax
    addw $8, %di
    decl %ecx
    jnz 2b

    movl %cr4, %eax
    orl $0x40620, %eax          /* PAE, OSFXSR, OSXMMEXCPT, OSXSAVE */
    movl %eax, %cr4
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x100, %eax            /* EFER.LME */
    wrmsr
    movl %cr0, %eax
    andl $~4, %eax
    orl $0x80000003, %eax       /* paging, protection, coprocessor present */
    movl %eax, %cr0
    lgdtw gdt_pointer
    ljmpl $8, $long_mode
dead:
    hlt
    jmp dead

    .code64
long_mode:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    xorl %ecx, %ecx
    movl states, %eax
    xorl %edx, %edx
    xsetbv
    movl $STACK_TOP, %esp
    movl $PROGRAM, %eax
    call *%rax
3:  hlt
    jmp 3b

    .balign 8
gdt:
    .quad 0
    .quad 0x00af9a000000ffff    /* code, 64 bits */
    .quad 0x00cf92000000ffff    /* data */
gdt_pointer:
    .word 23
    .long gdt
packet:
    .byte 16, 0
    .word CHUNK
    .word 0
packet_segment:
    .word PROGRAM / 16
packet_sector:
    .long 1, 0

    .org 0x1e0
header:
states:          .long 0        /* XCR0: the enabled register states */
program_sectors: .long 0        /* a multiple of CHUNK */
    .long 0, 0, 0, 0            /* positions of input and output, read by bare.c */
    .org 0x1fe
    .word 0xaa55
