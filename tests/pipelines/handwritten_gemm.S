/* One row of a product with packed weights: void gemm_row(size_t columns, size_t k_bytes, const float *a,
 * const float *packed, const float *bias, float *c); columns in eights, k in fours. Written for these tests. */
#define COLUMNS x0
#define K_BYTES x1

	.macro step lane, low, high
	fmla v16.4s, \low\().4s, v0.s[\lane]
	fmla v17.4s, \high\().4s, v0.s[\lane]
	.endm

	.text
	.p2align 4
	.globl gemm_row
	.type gemm_row, %function
gemm_row:
	cbz COLUMNS, .Ldone
1:
	ldp q16, q17, [x4], #32
	mov x9, x2
	mov x10, K_BYTES
.Lk:
	ldr q0, [x9], #16
	ldp q4, q5, [x3], #32
	ldp q6, q7, [x3], #32
	step 0, v4, v5
	step 1, v6, v7
	ldp q4, q5, [x3], #32
	ldp q6, q7, [x3], #32
	step 2, v4, v5
	step 3, v6, v7
	subs x10, x10, #16
	b.ne .Lk
	stp q16, q17, [x5], #32
	subs COLUMNS, COLUMNS, #8
	b.ne 1b
.Ldone:
	ret
	.size gemm_row, .-gemm_row

/* The same through a table of functions, and a sum that no machine pass improves. */
	.globl call_row
	.type call_row, %function
call_row:
	b gemm_row
	.size call_row, .-call_row
	.section .note.GNU-stack, "", @progbits
