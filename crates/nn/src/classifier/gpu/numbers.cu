// The numbers that feature maps consist of: bf16, f16 (`NUMBER_F16`) or floats (`NUMBER_F32`). Arithmetic is in floats.
// Compiled by NVRTC, without any header.

typedef unsigned int u32;
typedef unsigned char u8;

struct alignas(16) Quad {
    u32 word[4];
};

#if defined(NUMBER_F32)
typedef float number;
#else
typedef unsigned short number;
#endif

#if defined(NUMBER_F16)
__device__ __forceinline__ float low(u32 pair) {
    float x;
    asm("{ .reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, a; }" : "=f"(x) : "r"(pair));
    return x;
}
__device__ __forceinline__ float high(u32 pair) { return low(pair >> 16); }
__device__ __forceinline__ u32 rounded(float first, float second) {
    u32 pair;
    asm("{ .reg .b16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; mov.b32 %0, {a, b}; }"
        : "=r"(pair)
        : "f"(first), "f"(second));
    return pair;
}
#elif !defined(NUMBER_F32)
__device__ __forceinline__ float low(u32 pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ u32 rounded(float first, float second) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
#endif

__device__ __forceinline__ void read_floats(const float* from, float to[8]) {
    float4 first = ((const float4*)from)[0], second = ((const float4*)from)[1];
    to[0] = first.x, to[1] = first.y, to[2] = first.z, to[3] = first.w;
    to[4] = second.x, to[5] = second.y, to[6] = second.z, to[7] = second.w;
}

__device__ __forceinline__ void write_floats(float* to, const float x[8]) {
    ((float4*)to)[0] = make_float4(x[0], x[1], x[2], x[3]);
    ((float4*)to)[1] = make_float4(x[4], x[5], x[6], x[7]);
}

// Eight neighbours, which begin at a whole multiple of eight.
__device__ __forceinline__ void read_8(const number* from, float to[8]) {
#if defined(NUMBER_F32)
    read_floats(from, to);
#else
    Quad packed = *(const Quad*)from;
#pragma unroll
    for (int i = 0; i < 4; i++) to[2 * i] = low(packed.word[i]), to[2 * i + 1] = high(packed.word[i]);
#endif
}

__device__ __forceinline__ void write_8(number* to, const float x[8]) {
#if defined(NUMBER_F32)
    write_floats(to, x);
#else
    Quad packed;
#pragma unroll
    for (int i = 0; i < 4; i++) packed.word[i] = rounded(x[2 * i], x[2 * i + 1]);
    *(Quad*)to = packed;
#endif
}
