"""Tables of x86-64 opcodes: which extension of the instruction set each one belongs to, and which ones exist.

A row is "MAP.PREFIX [wW] OPCODES EXTENSIONS". MAP: 0 one byte, 1 0F, 2 0F 38, 3 0F 3A, and 5, 6, 8, 9, a for those
that only EVEX or XOP reach. PREFIX: np, 66, f3 or f2, which selects the instruction; * any. OPCODES: hexadecimal, 58-5f
a range; "=d0" all of ModRM, "/2" its reg field, "m" a memory operand, "r" a register. EXTENSIONS: LLVM's names;
"avx|avx2" the first with 128-bit vectors, the second with longer ones; "lig": the length of vectors has no meaning for
the instruction; "-" none.

Source: Intel SDM volume 2, appendix A and the page of each instruction; Intel ISE (319433-052); AMD APM volumes 3, 4.
"""

# Instructions with vectors of VEX also need avx, and those with mask registers avx512f: it enables these registers.

# Legacy encodings. Maps 0 and 1: what is not listed is of x86-64's base; maps 2 and 3: it does not exist.
LEGACY = """
0.* db/1m dd/1m df/1m sse3
0.* 9e 9f sahf
0.* c6/7r c7/7r rtm
1.f2 12 d0 7c 7d f0 sse3
1.66 d0 7c 7d sse3
1.f3 12 16 sse3
1.66 78 79 sse4a
1.f2 78 79 2b sse4a
1.f3 2b sse4a
1.f3 b8 popcnt
1.f3 bc bmi
1.f3 bd lzcnt
1.np 01=d0 xsave
1.np 01=d5 01=d6 rtm
1.np 01=e8 serialize
1.f2 01=e8 01=e9 tsxldtrk
1.f3 01=ec 01=ed 01=ee 01=ef uintr
1.np 01=ee 01=ef pku
1.np 01=fa 01=fb mwaitx
1.np 01=fc clzero
1.np 01=fd rdpru
1.np w1 c7/1m cx16
1.np c7/6r rdrnd
1.66 c7/6r rdrnd
1.f3 c7/6r uintr
1.np c7/7r rdseed
1.66 c7/7r rdseed
1.f3 c7/7r rdpid
1.np c7/3m c7/5m xsaves
1.np c7/4m xsavec
1.np ae/4m ae/5m xsave
1.np ae/6m xsaveopt
1.66 ae/6m clwb
1.66 ae/7m clflushopt
1.66 ae/6r waitpkg
1.f2 ae/6r waitpkg
1.f3 ae/6r waitpkg
1.f3 ae/0r ae/1r ae/2r ae/3r fsgsbase
1.f3 ae/4 ptwrite
1.f3 ae/5r shstk
2.np 00-0b 1c-1e ssse3
2.66 00-0b 1c-1e ssse3
2.66 10 14 15 17 20-25 28-2b 30-35 38-41 sse4.1
2.66 37 sse4.2
2.66 80-82 -
2.66 db-df aes
2.66 cf gfni
2.np c8-cd sha
2.np f0 f1 movbe
2.66 f0 f1 movbe
2.f2 f0 f1 sse4.2
2.66 f6 adx
2.f3 f6 adx
2.np f6 shstk
2.66 f8m movdir64b
2.f2 f8m enqcmd
2.f3 f8m enqcmd
2.np f9m movdiri
2.np fcm raoint
2.66 fcm raoint
2.f2 fcm raoint
2.f3 fcm raoint
3.np 0f ssse3
3.66 0f ssse3
3.66 08-0e 14-17 20-22 40-42 sse4.1
3.66 60-63 sse4.2
3.66 44 pclmul
3.66 ce cf gfni
3.66 df aes
3.np cc sha
3.f3 f0 hreset
"""

VEX = """
1.np 10 11 12 13 14-17 28 29 2b-2f 50-55 56 57 58 59 5a 5b 5c-5f 77 c2 c6 avx
1.66 10 11 12-17 28 29 2b 2e 2f 50 51 54-5f 7c 7d 6e 6f 7e 7f c2 c4 c5 c6 d0 d6 e6 e7 avx
1.np aem avx
1.f3 10 11 12 16 2a 2c 2d 51-53 58-5f 6f 7e 7f c2 e6 avx
1.f2 10 11 12 2a 2c 2d 51 58-5a 5c-5f 7c 7d c2 d0 e6 f0 avx
1.66 60-6d 70-76 d1-d5 d7-e5 e8-ef f1-f7 f8-fe avx|avx2,avx
1.f3 70 avx|avx2,avx
1.f2 70 avx|avx2,avx
1.np w0 41 42 44-47 98 avx512f
1.66 w0 4b avx512f
1.np w0 4b avx512bw avx512f
1.np w1 4b avx512bw avx512f
1.66 w0 41 42 44-47 98 avx512dq avx512f
1.np w0 4a 99 avx512dq avx512f
1.66 w0 4a 99 avx512dq avx512f
1.np w1 41 42 44-47 4a 98 99 avx512bw avx512f
1.66 w1 41 42 44-47 4a 98 99 avx512bw avx512f
1.np w0 90 91m 92r 93r avx512f
1.66 w0 90 91m 92r 93r avx512dq avx512f
1.np w1 90 91m avx512bw avx512f
1.66 w1 90 91m avx512bw avx512f
1.f2 92r 93r avx512bw avx512f
2.66 00-0b 1c-1e 20-25 28-2b 30-35 37-40 avx|avx2,avx
2.66 0c-0f 17 1am 2c-2f 41 avx
2.66 18m 19m avx
2.66 18r 19r 16 36 45-47 58 59 5am 78 79 8cm 8em 90-93m avx2 avx
2.66 13 f16c avx
2.66 96-9f a6-af b6-bf fma avx
2.66 w0 50-53 avxvnni avx
2.np w0 50 51 avxvnniint8 avx
2.f3 w0 50 51 avxvnniint8 avx
2.f2 w0 50 51 avxvnniint8 avx
2.np w0 d2 d3 avxvnniint16 avx
2.66 w0 d2 d3 avxvnniint16 avx
2.f3 w0 d2 d3 avxvnniint16 avx
2.66 w1 b4 b5 avxifma avx
2.np w0 b0m avxneconvert avx
2.66 w0 b0m b1m avxneconvert avx
2.f3 w0 b0m b1m 72 avxneconvert avx
2.f2 w0 b0m avxneconvert avx
2.f2 w0 cb-cdr sha512 avx
2.np w0 da sm3 avx
2.66 w0 da sm3 avx
2.f3 w0 da sm4 avx
2.f2 w0 da sm4 avx
2.66 cf gfni avx
2.66 db aes avx
2.66 dc-df aes,avx|vaes,avx
2.np f2 f3/1 f3/2 f3/3 f7 bmi
2.np f5 bmi2
2.f3 f5 bmi2
2.f2 f5 f6 bmi2
2.66 f7 bmi2
2.f3 f7 bmi2
2.f2 f7 bmi2
2.66 e0-efm cmpccxadd
2.np w0 49 amx-tile
2.66 w0 49m amx-tile
2.f2 w0 49r amx-tile
2.66 w0 4bm amx-tile
2.f2 w0 4bm amx-tile
2.f3 w0 4bm amx-tile
2.f3 w0 5cr amx-bf16
2.f2 w0 5cr amx-fp16
2.np w0 5er amx-int8
2.66 w0 5er amx-int8
2.f3 w0 5er amx-int8
2.f2 w0 5er amx-int8
2.np w0 6cr amx-complex
2.66 w0 6cr amx-complex
3.66 00-02 38 39 46 avx2 avx
3.66 04-06 08-0d 14-19 20-22 40 41 4a 4b 60-63 avx
3.66 0e 0f 42 4c avx|avx2,avx
3.66 1d f16c avx
3.66 w0 30 32 avx512dq avx512f
3.66 w1 30 32 avx512f
3.66 31 33 avx512bw avx512f
3.66 44 pclmul,avx|vpclmulqdq,avx
3.66 48 49 xop avx
3.66 5c-5f 68-6f 78-7f fma4 avx
3.66 w1 ce cf gfni avx
3.66 w0 de sm3 avx
3.66 df aes avx
3.f2 f0 bmi2
"""

XOP = """
8.np 85-87 8e 8f 95-97 9e 9f a2 a3 a6 b6 c0-c3 cc-cf ec-ef xop avx
9.np 01/1 01/2 01/3 01/4 01/5 01/6 01/7 02/1 02/6 tbm
9.np 12/0r 12/1r lwp
9.np 80-83 90-9b c1-c3 c6 c7 cb d1-d3 d6 d7 db e1-e3 xop avx
a.np 10 tbm
a.np 12 lwp
"""

# Each row needs avx512f too, and avx512vl for vectors of 128 and 256 bits where there is no "lig".
EVEX = """
1.np 10 11 14 15 28 29 2b 51 58 59 5a 5c-5f c2 c6 avx512f
1.66 10 11 14 15 28 29 2b 51 58 59 5a 5c-5f c2 c6 avx512f
1.np 12 13m 16 17m 2e 2f avx512f lig
1.66 12m 13m 16m 17m 2e 2f avx512f lig
1.f3 12 16 avx512f
1.f2 12 avx512f
1.f3 10 11 2a 2c 2d 51 58-5a 5c-5f c2 avx512f lig
1.f2 10 11 2a 2c 2d 51 58-5a 5c-5f c2 avx512f lig
1.np 54-57 avx512dq
1.66 54-57 avx512dq
1.np w0 5b avx512f
1.np w1 5b avx512dq
1.66 w0 5b avx512f
1.f3 w0 5b avx512f
1.66 60 61 63-65 67-69 6b 71 73/3 73/7 74 75 d1 d5 d8-da dc-de e0 e1 e3-e5 e8-ea ec-ee f1 f5 f6 f8 f9 fc fd avx512bw
1.66 62 66 6a 6c 6d 6f 70 72 73/2 73/6 76 7f d2-d4 db df e2 e7 eb ef f2-f4 fa fb fe avx512f
1.66 6e 7e d6 avx512f lig
1.f3 w1 7e avx512f lig
1.f3 6f 7f avx512f
1.f2 6f 7f avx512bw
1.f3 70 avx512bw
1.f2 70 avx512bw
1.np 78 79 avx512f
1.66 78-7b avx512dq
1.f3 78 79 7b avx512f lig
1.f2 78 79 7b avx512f lig
1.f3 w0 7a e6 avx512f
1.f3 w1 7a e6 avx512dq
1.f2 w0 7a avx512f
1.f2 w1 7a avx512dq
1.f2 w1 e6 avx512f
1.66 w1 e6 avx512f
1.66 c4 c5 avx512bw lig
2.66 00 04 0b 1c 1d 20 26 2b 30 38 3a 3c 3e 66 78-7b avx512bw
2.66 w1 10-12 75 7d 8d avx512bw
2.66 0c 0d 13-16 18 1e 1f 21-25 27-2a 2c 31-37 39 3b 3d 3f 42 45-47 4c 4e 58 avx512f
2.66 64 65 76 77 7c 7e 7f 88-8b 90-93m 96-98 9a 9c 9e a0-a3m a6-a8 aa ac ae b6-b8 ba bc be avx512f
2.66 2d 43 4d 4f 99 9b 9d 9f a9 ab ad af b9 bb bd bf avx512f lig
2.66 w0 19 1bm 59 5bm avx512dq
2.66 w1 1am 5am avx512dq
2.66 w0 1am 5am avx512f
2.66 w1 19 1bm 59 5bm avx512f
2.66 w0 40 avx512f
2.66 w1 40 avx512dq
2.f3 10 20 26 28 29 30 avx512bw
2.f3 11-15 21-25 27 31-35 avx512f
2.f3 38 39 avx512dq
2.f3 w1 2a avx512cd
2.f3 w0 3a avx512cd
2.66 44 c4 avx512cd
2.66 w0 50-53 avx512vnni
2.f3 w0 52 72 avx512bf16
2.f2 w0 72 avx512bf16
2.66 54 avx512bitalg
2.66 w0 8f avx512bitalg
2.66 55 avx512vpopcntdq
2.66 62 63 70-73 avx512vbmi2
2.f2 68 avx512vp2intersect
2.66 w0 75 7d 8d avx512vbmi
2.66 w1 83 avx512vbmi
2.66 w1 b4 b5 avx512ifma
2.66 w0 cf gfni
2.66 dc-df vaes
3.66 00 01 03-05 08 09 1d-1f 23 25 26 43 54 avx512f
3.66 0a 0b 27 55 17 21 avx512f lig
3.66 0f 3e 3f 42 avx512bw
3.66 14 15 20 avx512bw lig
3.66 16 22 avx512dq lig
3.66 w0 18 19 38 39 avx512f
3.66 w1 18 19 38 39 avx512dq
3.66 w0 1a 1b 3a 3b avx512dq
3.66 w1 1a 1b 3a 3b avx512f
3.66 44 vpclmulqdq
3.66 50 56 66 avx512dq
3.66 51 57 67 avx512dq lig
3.66 70-73 avx512vbmi2
3.66 w1 ce cf gfni
3.np w0 08 26 56 66 c2 avx512fp16
3.np w0 0a 27 57 67 avx512fp16 lig
3.f3 w0 c2 avx512fp16 lig
5.np w0 51 58 59 5a 5b 5c-5f 78 79 7c 7d avx512fp16
5.np w1 5b avx512fp16
5.66 1d 5a 5b 78-7b 7c 7d avx512fp16
5.f3 5b 7c 7d avx512fp16
5.f2 7a 7c 7d avx512fp16
5.f3 10 11 2a 2c 2d 51 58-5a 5c-5f 78 79 7b avx512fp16 lig
5.f2 5a avx512fp16 lig
5.np w0 1d 2e 2f avx512fp16 lig
5.66 6e 7e avx512fp16 lig
6.66 w0 13 2c 42 4c 4e 96-98 9a 9c 9e a6-a8 aa ac ae b6-b8 ba bc be avx512fp16
6.66 w0 2d 43 4d 4f 99 9b 9d 9f a9 ab ad af b9 bb bd bf avx512fp16 lig
6.np w0 13 avx512fp16 lig
6.f3 w0 56 d6 avx512fp16
6.f2 w0 56 d6 avx512fp16
6.f3 w0 57 d7 avx512fp16 lig
6.f2 w0 57 d7 avx512fp16 lig
"""
