/* This file is never compiled. It is preprocessed once per core with the compiler's options for that core; the output
 * has a line "need WORD BIT NAME" for each instruction set that the compiler may use with these options (runtime/needs.py
 * reads the lines; needs.c compares them with CPUID). NAME is LLVM's. Of versions whose instructions are read, the lines
 * give the bits. A line "tiles NAME" is one of an instruction set with tile registers, which the compiler uses only where
 * a kernel names its instructions, and whose use the system must permit (tile_permission.h).
 *
 * Words: 0 CPUID 01H ECX, 1 07H EBX, 2 07H ECX, 3 07H EDX, 4 07H.1 EAX, 5 80000001H ECX, 6 XCR0.
 * Source: Intel SDM volume 2A, CPUID, and volume 1, chapter 13 (XCR0); AMD APM volume 3, appendix E. */
#ifdef __SSE3__
need 0 0 sse3
#endif
#ifdef __PCLMUL__
need 0 1 pclmul
#endif
#ifdef __SSSE3__
need 0 9 ssse3
#endif
#ifdef __FMA__
need 0 12 fma
#endif
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_16
need 0 13 cx16
#endif
#ifdef __SSE4_1__
need 0 19 sse4.1
#endif
#ifdef __SSE4_2__
need 0 20 sse4.2
#endif
#ifdef __MOVBE__
need 0 22 movbe
#endif
#ifdef __POPCNT__
need 0 23 popcnt
#endif
#ifdef __AVX__
need 0 28 avx
need 6 1 avx
need 6 2 avx
#endif
#ifdef __F16C__
need 0 29 f16c
#endif
#ifdef __BMI__
need 1 3 bmi
#endif
#ifdef __AVX2__
need 1 5 avx2
#endif
#ifdef __BMI2__
need 1 8 bmi2
#endif
#ifdef __AVX512F__
need 1 16 avx512f
need 6 5 avx512f
need 6 6 avx512f
need 6 7 avx512f
#endif
#ifdef __AVX512DQ__
need 1 17 avx512dq
#endif
#ifdef __ADX__
need 1 19 adx
#endif
#ifdef __AVX512IFMA__
need 1 21 avx512ifma
#endif
#ifdef __AVX512CD__
need 1 28 avx512cd
#endif
#ifdef __AVX512BW__
need 1 30 avx512bw
#endif
#ifdef __AVX512VL__
need 1 31 avx512vl
#endif
#ifdef __AVX512VBMI__
need 2 1 avx512vbmi
#endif
#ifdef __AVX512VBMI2__
need 2 6 avx512vbmi2
#endif
#ifdef __GFNI__
need 2 8 gfni
#endif
#ifdef __VPCLMULQDQ__
need 2 10 vpclmulqdq
#endif
#ifdef __AVX512VNNI__
need 2 11 avx512vnni
#endif
#ifdef __AVX512BITALG__
need 2 12 avx512bitalg
#endif
#ifdef __AVX512VPOPCNTDQ__
need 2 14 avx512vpopcntdq
#endif
#ifdef __AVX512VP2INTERSECT__
need 3 8 avx512vp2intersect
#endif
#ifdef __AVX512FP16__
need 3 23 avx512fp16
#endif
#ifdef __AVXVNNI__
need 4 4 avxvnni
#endif
#ifdef __AVX512BF16__
need 4 5 avx512bf16
#endif
#ifdef __AVXIFMA__
need 4 23 avxifma
#endif
#ifdef __LZCNT__
need 5 5 lzcnt
#endif
#ifdef __SSE4A__
need 5 6 sse4a
#endif
#ifdef __XOP__
need 5 11 xop
#endif
#ifdef __FMA4__
need 5 16 fma4
#endif
#ifdef __TBM__
need 5 21 tbm
#endif
#ifdef __AMX_TILE__
tiles amx-tile
#endif
#ifdef __AMX_INT8__
tiles amx-int8
#endif
#ifdef __AMX_BF16__
tiles amx-bf16
#endif
/* Instruction sets that the compiler uses only where the source names an instruction. */
#ifdef MAVCG_NAMED_IN_SOURCE
need 0 25 aes
need 0 26 xsave
need 0 27 xsave
need 0 30 rdrnd
need 1 0 fsgsbase
need 1 11 rtm
need 1 18 rdseed
need 1 23 clflushopt
need 1 24 clwb
need 1 29 sha
need 2 4 pku
need 2 5 waitpkg
need 2 7 shstk
need 2 9 vaes
need 2 22 rdpid
need 2 27 movdiri
need 2 28 movdir64b
need 2 29 enqcmd
need 3 5 uintr
need 3 14 serialize
need 3 16 tsxldtrk
need 3 22 amx-bf16
need 3 24 amx-tile
need 6 17 amx-tile
need 6 18 amx-tile
need 3 25 amx-int8
need 4 0 sha512
need 4 1 sm3
need 4 2 sm4
need 4 3 raoint
need 4 7 cmpccxadd
need 4 21 amx-fp16
need 4 22 hreset
need 5 0 sahf
need 5 15 lwp
need 5 29 mwaitx
#endif
