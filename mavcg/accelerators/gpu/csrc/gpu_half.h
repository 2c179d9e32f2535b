// Conversion of f16 on the host, for a network's input, output and CPU operators.
#pragma once
#include <math.h>
#include <stdint.h>

static float float_of_half(uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const float sign = h >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf(1024.0f + mantissa, exponent - 25) : ldexpf((float)mantissa, -24));
}

static uint16_t half_from(float x) {  // rounds to nearest, ties to even
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const float magnitude = fabsf(x);
    if (isnan(x)) return sign | 0x7e00;
    if (magnitude == 0.0f) return sign;
    if (magnitude >= 65520.0f) return sign | 0x7c00;
    int exponent = 0;
    frexpf(magnitude, &exponent);
    const int unit = exponent - 11 < -24 ? -24 : exponent - 11;
    const long steps = lrintf(ldexpf(magnitude, -unit));
    if (unit == -24) return sign | (uint16_t)steps;
    return sign | (uint16_t)((((long)unit + 24) << 10) + steps);
}
