// What a Qwen3-VL does between its matrix products. Compiled by NVRTC when a model is opened, without any header.
//
// Numbers lie as bf16 and are computed with as floats. Rows are whole multiples of eight numbers, and start at whole
// multiples of 16 bytes. Widths are known when it is compiled: of rows `TEXT_WIDTH`, `VISION_WIDTH` and (squares of patches)
// `VISION_MERGED`, of half a head `TEXT_HALF` and `VISION_HALF`.

typedef unsigned short bf16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(16) Eight {
    u32 pair[4];
};

__device__ __forceinline__ float low(u32 pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ float number(bf16 x) { return __uint_as_float((u32)x << 16); }

__device__ __forceinline__ u32 rounded(float first, float second) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

__device__ __forceinline__ void unpack(const Eight& packed, float x[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = low(packed.pair[i]);
        x[2 * i + 1] = high(packed.pair[i]);
    }
}

__device__ __forceinline__ Eight pack(const float x[8]) {
    Eight packed;
#pragma unroll
    for (int i = 0; i < 4; i++) packed.pair[i] = rounded(x[2 * i], x[2 * i + 1]);
    return packed;
}

// Eight floats, from a whole multiple of 32 bytes.
__device__ __forceinline__ void read_floats(const float* from, float to[8]) {
    float4 first = ((const float4*)from)[0], second = ((const float4*)from)[1];
    to[0] = first.x, to[1] = first.y, to[2] = first.z, to[3] = first.w;
    to[4] = second.x, to[5] = second.y, to[6] = second.z, to[7] = second.w;
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

// A row in the registers of a warp.
template <int WIDTH>
struct Row {
    static constexpr int EIGHTS = (WIDTH / 8 + 31) / 32;
    Eight packed[EIGHTS];

    // Which eight a lane has in a round.
    static __device__ __forceinline__ int place(int round) { return round * 32 + threadIdx.x % 32; }

    __device__ __forceinline__ void read(const bf16* row) {
#pragma unroll
        for (int r = 0; r < EIGHTS; r++) packed[r] = place(r) < WIDTH / 8 ? ((const Eight*)row)[place(r)] : Eight{};
    }

    // The sum of what `part` makes of each number.
    template <typename Part>
    __device__ __forceinline__ float sum(Part part) const {
        float sum = 0.0f, numbers[8];
#pragma unroll
        for (int r = 0; r < EIGHTS; r++) {
            if (place(r) < WIDTH / 8) {
                unpack(packed[r], numbers);
#pragma unroll
                for (int j = 0; j < 8; j++) sum += part(numbers[j]);
            }
        }
        return warp_sum(sum);
    }

    // `(number - mean) * factor * scale + shift`; without `shift`, nothing is added.
    __device__ __forceinline__ void write(
        bf16* row, float mean, float factor, const float* scale, const float* shift) const {
        float numbers[8], scales[8], shifts[8] = {};
#pragma unroll
        for (int r = 0; r < EIGHTS; r++) {
            if (place(r) < WIDTH / 8) {
                unpack(packed[r], numbers);
                read_floats(scale + place(r) * 8, scales);
                if (shift) read_floats(shift + place(r) * 8, shifts);
#pragma unroll
                for (int j = 0; j < 8; j++) numbers[j] = (numbers[j] - mean) * factor * scales[j] + shifts[j];
                ((Eight*)row)[place(r)] = pack(numbers);
            }
        }
    }
};

__device__ __forceinline__ int row_of_warp() { return blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; }

// Row `rows[i]` (or `i`) of `x`, divided by its root mean square and scaled, to row `i` of `y`. A warp per row.
extern "C" __global__ void rms_norm(
    const bf16* x, const float* scale, bf16* y, int y_stride, int count, float epsilon, const int* rows) {
    int to = row_of_warp();
    if (to >= count) return;
    u64 from = rows ? rows[to] : to;
    Row<TEXT_WIDTH> row;
    row.read(x + from * TEXT_WIDTH);
    float factor = rsqrtf(row.sum([](float x) { return x * x; }) / TEXT_WIDTH + epsilon);
    row.write(y + (u64)to * y_stride, 0.0f, factor, scale, nullptr);
}

template <int WIDTH>
__device__ __forceinline__ void normalise(
    const bf16* x, const float* scale, const float* shift, bf16* y, int y_stride, int count, float epsilon) {
    u64 at = row_of_warp();
    if (at >= count) return;
    Row<WIDTH> row;
    row.read(x + at * WIDTH);
    float mean = shift ? row.sum([](float x) { return x; }) / WIDTH : 0.0f;
    float variance = row.sum([=](float x) { return (x - mean) * (x - mean); }) / WIDTH;
    float factor = rsqrtf(variance + epsilon);
    row.write(y + at * y_stride, mean, factor, scale, shift);
}

// Each row to mean zero and variance one, scaled and shifted; without a shift, to a mean square of one. Of patches, and of squares of
// them. A warp per row.
extern "C" __global__ void layer_norm(
    const bf16* x, const float* scale, const float* shift, bf16* y, int y_stride, int count, float epsilon) {
    normalise<VISION_WIDTH>(x, scale, shift, y, y_stride, count, epsilon);
}

extern "C" __global__ void layer_norm_merged(
    const bf16* x, const float* scale, const float* shift, bf16* y, int y_stride, int count, float epsilon) {
    normalise<VISION_MERGED>(x, scale, shift, y, y_stride, count, epsilon);
}

// Tokens to rows: a place of the table, or (below zero) the complement of a row that was seen. A block per row.
extern "C" __global__ void embed(
    const int* sources, const bf16* table, int table_stride, const bf16* seen, bf16* x, int width) {
    int source = sources[blockIdx.x];
    const bf16* from = source >= 0 ? table + (u64)source * table_stride : seen + (u64)(~source) * width;
    Eight* out = (Eight*)(x + (u64)blockIdx.x * width);
    for (int i = threadIdx.x; i < width / 8; i += blockDim.x) out[i] = ((const Eight*)from)[i];
}

// Adds rows `from` of `deep` to rows `to` of `x`. A block per row.
extern "C" __global__ void add_rows(bf16* x, const int* to, const bf16* deep, const int* from, int width) {
    Eight* out = (Eight*)(x + (u64)to[blockIdx.x] * width);
    const Eight* in = (const Eight*)(deep + (u64)from[blockIdx.x] * width);
    float own[8], more[8];
    for (int i = threadIdx.x; i < width / 8; i += blockDim.x) {
        unpack(out[i], own);
        unpack(in[i], more);
#pragma unroll
        for (int j = 0; j < 8; j++) own[j] += more[j];
        out[i] = pack(own);
    }
}

// Row `i` of `y` becomes row `rows[i]` of `x`. Strides in numbers. A block per row.
extern "C" __global__ void take_rows(
    const bf16* x, int x_stride, const int* rows, bf16* y, int y_stride, int width) {
    u64 from = rows ? rows[blockIdx.x] : blockIdx.x;
    const Eight* in = (const Eight*)(x + from * x_stride);
    Eight* out = (Eight*)(y + (u64)blockIdx.x * y_stride);
    for (int i = threadIdx.x; i < width / 8; i += blockDim.x) out[i] = in[i];
}

// Row `rows[i]` of `y` becomes row `i` of `x`. Strides in numbers. A block per row.
extern "C" __global__ void put_rows(
    const bf16* x, int x_stride, const int* rows, bf16* y, int y_stride, int width) {
    const Eight* in = (const Eight*)(x + (u64)blockIdx.x * x_stride);
    Eight* out = (Eight*)(y + (u64)rows[blockIdx.x] * y_stride);
    for (int i = threadIdx.x; i < width / 8; i += blockDim.x) out[i] = in[i];
}

// Every row of `x` becomes the place it has among `period`. A block per row.
extern "C" __global__ void repeat_rows(bf16* x, const bf16* places, int period, int width) {
    Eight* out = (Eight*)(x + (u64)blockIdx.x * width);
    const Eight* in = (const Eight*)(places + (u64)(blockIdx.x % period) * width);
    for (int i = threadIdx.x; i < width / 8; i += blockDim.x) out[i] = in[i];
}

// Bytes of pixels to numbers: `(byte - mean) / spread` of the colour. `colour` bytes are of one colour.
extern "C" __global__ void pixels(
    const unsigned char* bytes, bf16* x, u64 count, int colour, float3 mean, float3 spread) {
    u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i >= count) return;
    int which = i / colour % 3;
    float m = which == 0 ? mean.x : which == 1 ? mean.y : mean.z;
    float s = which == 0 ? spread.x : which == 1 ? spread.y : spread.z;
    uint2 eight = *(const uint2*)(bytes + i);
    float numbers[8];
#pragma unroll
    for (int j = 0; j < 8; j++) numbers[j] = ((float)((j < 4 ? eight.x : eight.y) >> (j % 4 * 8) & 255u) - m) / s;
    *(Eight*)(x + i) = pack(numbers);
}

// Cosines and sines of tokens: frequency `k` turns by the position on axis `axes[k]`. A block per token.
extern "C" __global__ void angles(const int* positions, const float* frequencies, const int* axes, float2* turns) {
    float angle = (float)positions[3 * blockIdx.x + axes[threadIdx.x]] * frequencies[threadIdx.x];
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    turns[(u64)blockIdx.x * blockDim.x + threadIdx.x] = make_float2(cosine, sine);
}

// Turns the two halves of a head by angles; lanes have two numbers of each half at a time. `to` may be `head`.
template <int HALF, bool NORM>
__device__ __forceinline__ void turn_head(
    const bf16* head, bf16* to, const float2* turns, const float* scale, float epsilon) {
    constexpr int ROUNDS = (HALF + 63) / 64;
    int lane = threadIdx.x % 32;
    float first[ROUNDS][2], second[ROUNDS][2], squares = 0.0f;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int i = r * 64 + lane * 2;
        u32 a = i < HALF ? *(const u32*)(head + i) : 0, b = i < HALF ? *(const u32*)(head + HALF + i) : 0;
        first[r][0] = low(a), first[r][1] = high(a), second[r][0] = low(b), second[r][1] = high(b);
#pragma unroll
        for (int j = 0; j < 2; j++) squares += first[r][j] * first[r][j] + second[r][j] * second[r][j];
    }
    float factor = NORM ? rsqrtf(warp_sum(squares) / (2 * HALF) + epsilon) : 1.0f;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int i = r * 64 + lane * 2;
        if (i >= HALF) break;
        float turned[2][2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float2 turn = turns[i + j];
            float a = first[r][j] * (NORM ? factor * scale[i + j] : 1.0f);
            float b = second[r][j] * (NORM ? factor * scale[HALF + i + j] : 1.0f);
            turned[0][j] = a * turn.x - b * turn.y;
            turned[1][j] = b * turn.x + a * turn.y;
        }
        *(u32*)(to + i) = rounded(turned[0][0], turned[0][1]);
        *(u32*)(to + HALF + i) = rounded(turned[1][0], turned[1][1]);
    }
}

// Heads of tokens, normalised and turned, from `x` to `y` (which may be `x`): `asking` ones scaled by `q_scale`, then those up
// to `heads` by `k_scale`; without scales, turned alone. Token `i` turns as token `rows[i]` (or `i`). A warp per head.
extern "C" __global__ void turn_text(
    const bf16* x, int stride, bf16* y, int y_stride, int asking, int heads, const float* q_scale, const float* k_scale, float epsilon,
    const float2* turns, const int* rows) {
    int head = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
    if (head >= heads) return;
    u64 token = rows ? rows[blockIdx.x] : blockIdx.x;
    const bf16* from = x + (u64)blockIdx.x * stride + head * 2 * TEXT_HALF;
    bf16* to = y + (u64)blockIdx.x * y_stride + head * 2 * TEXT_HALF;
    const float* scale = head < asking ? q_scale : k_scale;
    if (scale) turn_head<TEXT_HALF, true>(from, to, turns + token * TEXT_HALF, scale, epsilon);
    else turn_head<TEXT_HALF, false>(from, to, turns + token * TEXT_HALF, nullptr, 0.0f);
}

// Heads of patches turned in place; patch `i` as the place it has among `period`. A warp per head.
extern "C" __global__ void turn_vision(bf16* x, int stride, int heads, const float2* turns, int period) {
    int head = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
    if (head >= heads) return;
    bf16* at = x + (u64)blockIdx.x * stride + head * 2 * VISION_HALF;
    turn_head<VISION_HALF, false>(at, at, turns + (u64)(blockIdx.x % period) * VISION_HALF, nullptr, 0.0f);
}

// `silu(gate) * up` of rows `[gate, up]`. A block per row.
extern "C" __global__ void swiglu(const bf16* x, bf16* y, int y_stride, int inner) {
    const Eight* gates = (const Eight*)(x + (u64)blockIdx.x * 2 * inner);
    const Eight* ups = gates + inner / 8;
    Eight* out = (Eight*)(y + (u64)blockIdx.x * y_stride);
    float gate[8], up[8];
    for (int i = threadIdx.x; i < inner / 8; i += blockDim.x) {
        unpack(gates[i], gate);
        unpack(ups[i], up);
#pragma unroll
        for (int j = 0; j < 8; j++) gate[j] = gate[j] / (1.0f + __expf(-gate[j])) * up[j];
        out[i] = pack(gate);
    }
}

// GELU by the error function, in place.
extern "C" __global__ void gelu(bf16* x, u64 count) {
    u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i >= count) return;
    float numbers[8];
    unpack(*(const Eight*)(x + i), numbers);
#pragma unroll
    for (int j = 0; j < 8; j++) numbers[j] = 0.5f * numbers[j] * (1.0f + erff(numbers[j] * 0.70710678f));
    *(Eight*)(x + i) = pack(numbers);
}

// Products of rows with a few rows of a table (or, without labels, with its first `count`), in floats: `y[row, label]`. Rows of both
// are `stride` numbers apart. A warp per product.
extern "C" __global__ void label_logits(
    const bf16* x, const bf16* table, int stride, const int* labels, int count, float* y, int width) {
    int label = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (label >= count) return;
    const Eight* row = (const Eight*)(x + (u64)blockIdx.y * stride);
    const Eight* other = (const Eight*)(table + (u64)(labels ? labels[label] : label) * stride);
    float sum = 0.0f, a[8], b[8];
    for (int i = lane; i < width / 8; i += 32) {
        unpack(row[i], a);
        unpack(other[i], b);
#pragma unroll
        for (int j = 0; j < 8; j++) sum += a[j] * b[j];
    }
    sum = warp_sum(sum);
    if (lane == 0) y[(u64)blockIdx.y * count + label] = sum;
}

// A signed whole number of eight bits as a float.
struct Int8 {
    static __device__ __forceinline__ float value(u32 byte) { return (float)(signed char)byte; }
};

// A float of eight bits (E4M3): its exponent and mantissa, moved to where a float has them, are 2^-120 times too small. So are
// numbers below the smallest normal one, which are floats of that kind too.
struct Float8 {
    static __device__ __forceinline__ float value(u32 byte) {
        float size = __uint_as_float((byte & 127u) << 20) * __uint_as_float((127u + 120u) << 23);
        if ((byte & 127u) == 127u) size = __uint_as_float(0x7fc00000u);
        return byte & 128u ? -size : size;
    }
};

// Weights of eight bits to bf16: what bytes stand for, times the scale of their block of `block_eights` times eight. A block of threads
// per row.
template <typename Kind>
__device__ __forceinline__ void unpack_row(
    const unsigned char* packed, const float* scales, bf16* weights, int width, int block_eights) {
    const uint2* in = (const uint2*)(packed + (u64)blockIdx.x * width);
    int eights = width / 8;
    const float* row_scales = scales + (u64)blockIdx.x * ((eights + block_eights - 1) / block_eights);
    Eight* out = (Eight*)(weights + (u64)blockIdx.x * width);
    float numbers[8];
    for (int i = threadIdx.x; i < eights; i += blockDim.x) {
        uint2 eight = in[i];
        float scale = row_scales[i / block_eights];
#pragma unroll
        for (int j = 0; j < 8; j++)
            numbers[j] = Kind::value((j < 4 ? eight.x : eight.y) >> (j % 4 * 8) & 255u) * scale;
        out[i] = pack(numbers);
    }
}

extern "C" __global__ void unpack_int8(
    const unsigned char* packed, const float* scales, bf16* weights, int width, int block_eights) {
    unpack_row<Int8>(packed, scales, weights, width, block_eights);
}

extern "C" __global__ void unpack_float8(
    const unsigned char* packed, const float* scales, bf16* weights, int width, int block_eights) {
    unpack_row<Float8>(packed, scales, weights, width, block_eights);
}
