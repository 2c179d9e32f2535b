/* This file is never compiled. It is preprocessed once per core with the compiler's options for that core; the output
 * has a line "need WORD BIT" for each instruction set that the compiler may use with these options (runtime/build.py
 * reads the lines; x86_features.c compares them with CPUID).
 *
 * Words: 0 CPUID 01H ECX, 1 07H EBX, 2 07H ECX, 3 07H EDX, 4 07H.1 EAX, 5 80000001H ECX, 6 XCR0.
 * Source: Intel SDM volume 2A, CPUID, and volume 1, chapter 13 (XCR0); AMD APM volume 3, appendix E. */
#ifdef __SSE3__
need 0 0
#endif
#ifdef __PCLMUL__
need 0 1
#endif
#ifdef __SSSE3__
need 0 9
#endif
#ifdef __FMA__
need 0 12
#endif
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_16
need 0 13
#endif
#ifdef __SSE4_1__
need 0 19
#endif
#ifdef __SSE4_2__
need 0 20
#endif
#ifdef __MOVBE__
need 0 22
#endif
#ifdef __POPCNT__
need 0 23
#endif
#ifdef __AVX__
need 0 28
need 6 1
need 6 2
#endif
#ifdef __F16C__
need 0 29
#endif
#ifdef __BMI__
need 1 3
#endif
#ifdef __AVX2__
need 1 5
#endif
#ifdef __BMI2__
need 1 8
#endif
#ifdef __AVX512F__
need 1 16
need 6 5
need 6 6
need 6 7
#endif
#ifdef __AVX512DQ__
need 1 17
#endif
#ifdef __ADX__
need 1 19
#endif
#ifdef __AVX512IFMA__
need 1 21
#endif
#ifdef __AVX512CD__
need 1 28
#endif
#ifdef __AVX512BW__
need 1 30
#endif
#ifdef __AVX512VL__
need 1 31
#endif
#ifdef __AVX512VBMI__
need 2 1
#endif
#ifdef __AVX512VBMI2__
need 2 6
#endif
#ifdef __GFNI__
need 2 8
#endif
#ifdef __VPCLMULQDQ__
need 2 10
#endif
#ifdef __AVX512VNNI__
need 2 11
#endif
#ifdef __AVX512BITALG__
need 2 12
#endif
#ifdef __AVX512VPOPCNTDQ__
need 2 14
#endif
#ifdef __AVX512VP2INTERSECT__
need 3 8
#endif
#ifdef __AVX512FP16__
need 3 23
#endif
#ifdef __AVXVNNI__
need 4 4
#endif
#ifdef __AVX512BF16__
need 4 5
#endif
#ifdef __AVXIFMA__
need 4 23
#endif
#ifdef __LZCNT__
need 5 5
#endif
#ifdef __SSE4A__
need 5 6
#endif
#ifdef __XOP__
need 5 11
#endif
#ifdef __FMA4__
need 5 16
#endif
#ifdef __TBM__
need 5 21
#endif
