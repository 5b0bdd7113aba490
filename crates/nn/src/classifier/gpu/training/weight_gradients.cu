// Gradients of a convolution's weights: products of matrices whose common side are the output pixels of all images. Rows are
// outputs, columns the inputs that a pixel sees, in the order of the weights. `weights` of a `Conv` is the gradient of its outputs
// here. Blocks of a column of the grid share the pixels: each writes its own sums to `partial`, [splits][outputs][columns]; where
// there is only one, it adds them to the gradient, `y`, unless `arrived` says that the loss is not a number.

__device__ __forceinline__ void put_pair(const Conv& c, int columns, int output, int column, float first, float second) {
    long long place = (long long)output * columns + column;
    if (c.splits > 1) {
        *(float2*)(c.partial + blockIdx.y * c.outputs * columns + place) = make_float2(first, second);
    } else if (*c.arrived != BAD) {
        float2* to = (float2*)((float*)c.y + place);
        float2 before = *c.arrived == IS_FIRST ? make_float2(0.0f, 0.0f) : *to;
        *to = make_float2(before.x + first, before.y + second);
    }
}

// Adds the sums of all blocks to a gradient, in their order. The first convolution's 8x8 taps have a row and a column that the
// convolution does not have.
extern "C" __global__ void add_partials(const float* partial, int splits, int count, float* gradient, const int* is_good, int is_stem) {
    int place = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (place >= count || *is_good == BAD) return;
    float4 sum = *(const float4*)(partial + place);
#pragma unroll 4
    for (int split = 1; split < splits; split++) {
        float4 part = *(const float4*)(partial + (long long)split * count + place);
        sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    float x[4] = {sum.x, sum.y, sum.z, sum.w};
    if (is_stem)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int column = (place + i) % 256, slow = column / 64, fast = column / 16 % 4, channel = column % 16;
#if defined(NUMBER_F32)
            int square_y = fast, square_x = slow;  // 16 channels of every tap, then the next
#else
            int square_y = slow, square_x = fast;
#endif
            int dy = channel / 6, dx = channel / 3 % 2;
            if (channel >= 12 || 2 * square_y + dy == 0 || 2 * square_x + dx == 0) x[i] = 0.0f;
        }
    float4* to = (float4*)(gradient + place);
    float4 before = *is_good == IS_FIRST ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : *to;
    *to = make_float4(before.x + x[0], before.y + x[1], before.z + x[2], before.w + x[3]);
}

#if !defined(NUMBER_F32)

// Pixels at a time, and the bytes of as many pixels of 64 channels.
constexpr int PIXELS = 64, SLAB = PIXELS * 128;

__device__ __forceinline__ void matrices_transposed(u32 r[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

// Brings slabs of gradients (MB of 64 outputs) and of inputs (NB of 64 columns) into shared memory. A slab's sixteen bytes lie at
// their place XOR the pixel.
template <int MB, int NB, int THREADS, int STAGES>
struct Slabs {
    static constexpr int STEP = THREADS / 8, ROUNDS = (PIXELS + STEP - 1) / STEP, STAGE_BYTES = (MB + NB) * SLAB;

    const number* gradients;
    int offsets[NB], taps[NB];
    Pixel* pixels;  // of STAGES + 1 slabs
    u32 room;

    __device__ __forceinline__ Slabs(const Conv& c, int tile_m, int tile_n, u32 room, Pixel* pixels) : pixels(pixels), room(room) {
        int of_block = (int)(c.taps_y * c.taps_x), blocks = of_block * (int)c.channels / 64;
        gradients = c.weights + tile_m * MB * 64 + threadIdx.x % 8 * 8;
#pragma unroll
        for (int i = 0; i < NB; i++) {
            int at = tile_n * NB + i, block = at / of_block, tap = at - block * of_block, tap_y = tap / (int)c.taps_x;
            taps[i] = at < blocks ? tap : 31;  // no pixel has that one
            offsets[i] = block * 64 + tap_y * (int)c.row_stride + (tap - tap_y * (int)c.taps_x) * (int)c.pixel_stride +
                         threadIdx.x % 8 * 8;
        }
    }

    // Finds the pixels of a slab; others see them after the next barrier.
    __device__ __forceinline__ void find(const Conv& c, int slab) {
        if (threadIdx.x < PIXELS)
            pixels[slab % (STAGES + 1) * PIXELS + threadIdx.x] = pixel_of(c, slab * PIXELS + (int)threadIdx.x);
    }

    __device__ __forceinline__ void fetch(const Conv& c, int slab, int number_of) {
        u32 stage = room + number_of % STAGES * STAGE_BYTES;
        int chunk = threadIdx.x & 7;
#pragma unroll
        for (int i = 0; i < ROUNDS; i++) {
            int row = (threadIdx.x >> 3) + i * STEP, pixel = slab * PIXELS + row;
            if (PIXELS % STEP && row >= PIXELS) break;
            u32 place = stage + row * 128 + ((chunk ^ (row & 7)) << 4);
            bool is_there = pixel < (int)c.rows;
            const number* from = gradients + (is_there ? (long long)pixel * c.outputs : 0);
#pragma unroll
            for (int m = 0; m < MB; m++) copy_16(place + m * SLAB, from + m * 64, is_there);
            Pixel found = pixels[slab % (STAGES + 1) * PIXELS + row];
#pragma unroll
            for (int n = 0; n < NB; n++) {
                bool is_inside = found.inside >> taps[n] & 1;
                copy_16(place + (MB + n) * SLAB, c.x + (is_inside ? found.first + offsets[n] : 0), is_inside);
            }
        }
    }
};

// The slabs of a block: from, to.
__device__ __forceinline__ int2 share(const Conv& c) {
    long long slabs = (c.rows + PIXELS - 1) / PIXELS;
    return make_int2((int)(slabs * blockIdx.y / c.splits), (int)(slabs * (blockIdx.y + 1) / c.splits));
}

// MB x 64 outputs of NB x 64 columns; each warp has 32 outputs of 64 columns.
template <int MB, int NB, int STAGES>
struct GradientTile {
    static constexpr int THREADS = MB * 2 * NB * 32;
    typedef Slabs<MB, NB, THREADS, STAGES> Source;

    static __device__ __forceinline__ void run(const Conv& c) {
        extern __shared__ Quad memory[];
        __shared__ Pixel pixels[(STAGES + 1) * PIXELS];
        int columns = (int)(c.taps_y * c.taps_x * c.channels), tiles_n = (columns / 64 + NB - 1) / NB;
        int tile_m = blockIdx.x / tiles_n, tile_n = blockIdx.x - tile_m * tiles_n;
        int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warp_m = warp / NB, warp_n = warp % NB;
        Source source(c, tile_m, tile_n, shared_address(memory), pixels);
        int2 slabs = share(c);
        float sums[2][8][4] = {};
#pragma unroll
        for (int i = 0; i < STAGES; i++) source.find(c, slabs.x + i);
        __syncthreads();
        int count = slabs.y - slabs.x;
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) {
            if (i < count) source.fetch(c, slabs.x + i, i);
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        for (int i = 0; i < count; i++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncthreads();
            source.find(c, slabs.x + i + STAGES);
            if (i + STAGES - 1 < count) source.fetch(c, slabs.x + i + STAGES - 1, i + STAGES - 1);
            asm volatile("cp.async.commit_group;" ::: "memory");
            u32 stage = shared_address(memory) + i % STAGES * Source::STAGE_BYTES;
            u32 a_base = stage + warp_m / 2 * SLAB, b_base = stage + (MB + warp_n) * SLAB;
            int a_row = (lane & 7) + (lane >> 4 << 3), a_chunk = warp_m % 2 * 4 + (lane >> 3 & 1);
            int b_row = (lane & 7) + ((lane >> 3 & 1) << 3), b_chunk = lane >> 4;
#pragma unroll
            for (int step = 0; step < PIXELS / 16; step++) {
                u32 a[2][4], b[4][4];
#pragma unroll
                for (int m = 0; m < 2; m++)
                    matrices_transposed(a[m], a_base + (step * 16 + a_row) * 128 + (((a_chunk + m * 2) ^ (lane & 7)) << 4));
#pragma unroll
                for (int n = 0; n < 4; n++)
                    matrices_transposed(b[n], b_base + (step * 16 + b_row) * 128 + (((b_chunk + n * 2) ^ (lane & 7)) << 4));
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int n = 0; n < 4; n++) {
                        multiply_add(sums[m][2 * n], a[m], b[n][0], b[n][1]);
                        multiply_add(sums[m][2 * n + 1], a[m], b[n][2], b[n][3]);
                    }
            }
        }
        if (tile_n * NB + warp_n >= columns / 64) return;
        int output = tile_m * MB * 64 + warp_m * 32 + (lane >> 2), column = (tile_n * NB + warp_n) * 64 + 2 * (lane & 3);
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < 8; n++) {
                put_pair(c, columns, output + m * 16, column + n * 8, sums[m][n][0], sums[m][n][1]);
                put_pair(c, columns, output + m * 16 + 8, column + n * 8, sums[m][n][2], sums[m][n][3]);
            }
    }
};

#define GRADIENT_TILE(MB, NB, STAGES)                                                                          \
    extern "C" __global__ void __launch_bounds__(MB * 2 * NB * 32) weights_##MB##x##NB(const __grid_constant__ Conv c) { \
        GradientTile<MB, NB, STAGES>::run(c);                                                                  \
    }

GRADIENT_TILE(1, 1, 3)
GRADIENT_TILE(1, 2, 3)
GRADIENT_TILE(1, 3, 3)
GRADIENT_TILE(2, 2, 3)
GRADIENT_TILE(2, 3, 3)

#if defined(HOPPER)

// Where a matrix begins whose rows are pixels: 128 bytes of channels, eight of which are one pattern of XORs; further channels are a
// slab away.
__device__ __forceinline__ u64 transposed_at(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(SLAB >> 4) << 16 | 64ull << 32 | 1ull << 62;
}

// Adds the product of 64 outputs and 16 pixels with those pixels of 64, 128 or 192 columns.
__device__ __forceinline__ void multiply_transposed(float (&d)[8][4], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16." KIND
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
        " %32, %33, 1, 1, 1, 1, 1;"
        : EIGHT_FOURS(0)
        : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_transposed(float (&d)[16][4], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16." KIND
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
        "%62,%63}, %64, %65, 1, 1, 1, 1, 1;"
        : EIGHT_FOURS(0), EIGHT_FOURS(8)
        : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_transposed(float (&d)[24][4], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n192k16." KIND
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
        "%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,"
        "%92,%93,%94,%95}, %96, %97, 1, 1, 1, 1, 1;"
        : EIGHT_FOURS(0), EIGHT_FOURS(8), EIGHT_FOURS(16)
        : "l"(a), "l"(b));
}

// MB groups of four warps, each with 64 outputs of NB x 64 columns.
template <int MB, int NB, int STAGES>
struct HopperGradientTile {
    static constexpr int THREADS = MB * 128;
    typedef Slabs<MB, NB, THREADS, STAGES> Source;

    static __device__ __forceinline__ void run(const Conv& c) {
        extern __shared__ Quad memory[];
        __shared__ Pixel pixels[(STAGES + 1) * PIXELS];
        u32 room = shared_address(memory) + (-shared_address(memory) & 1023);
        int columns = (int)(c.taps_y * c.taps_x * c.channels), tiles_n = (columns / 64 + NB - 1) / NB;
        int tile_m = blockIdx.x / tiles_n, tile_n = blockIdx.x - tile_m * tiles_n, group = threadIdx.x / 128;
        Source source(c, tile_m, tile_n, room, pixels);
        int2 slabs = share(c);
        float sums[NB * 8][4];
#pragma unroll
        for (int i = 0; i < NB * 8; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) sums[i][k] = 0.0f;
#pragma unroll
        for (int i = 0; i < STAGES; i++) source.find(c, slabs.x + i);
        __syncthreads();
        int count = slabs.y - slabs.x;
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) {
            if (i < count) source.fetch(c, slabs.x + i, i);
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        for (int i = 0; i < count; i++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (MB > 1) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            __syncthreads();
            u32 stage = room + i % STAGES * Source::STAGE_BYTES;
            u64 a = transposed_at(stage + group * SLAB), b = transposed_at(stage + MB * SLAB);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int step = 0; step < PIXELS / 16; step++) multiply_transposed(sums, a + step * 128, b + step * 128);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            source.find(c, slabs.x + i + STAGES);
            if (MB == 1) {  // the stage that is fetched next was multiplied in the round before, by these four warps
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                __syncthreads();
            }
            if (i + STAGES - 1 < count) source.fetch(c, slabs.x + i + STAGES - 1, i + STAGES - 1);
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int i = 0; i < NB * 8; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) asm volatile("" : "+f"(sums[i][k])::"memory");
        int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
        int output = (tile_m * MB + group) * 64 + warp * 16 + (lane >> 2), column = tile_n * NB * 64 + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < NB * 8; n++) {
            if (column + n * 8 >= columns) break;
            put_pair(c, columns, output, column + n * 8, sums[n][0], sums[n][1]);
            put_pair(c, columns, output + 8, column + n * 8, sums[n][2], sums[n][3]);
        }
    }
};

#define HOPPER_GRADIENT_TILE(MB, NB, STAGES, BLOCKS)                                                                     \
    extern "C" __global__ void __launch_bounds__(MB * 128, BLOCKS) hopper_weights_##MB##x##NB(const __grid_constant__ Conv c) { \
        HopperGradientTile<MB, NB, STAGES>::run(c);                                                                    \
    }

HOPPER_GRADIENT_TILE(1, 1, 4, 2)
HOPPER_GRADIENT_TILE(1, 2, 4, 2)
HOPPER_GRADIENT_TILE(1, 3, 3, 2)
HOPPER_GRADIENT_TILE(2, 2, 3, 2)
HOPPER_GRADIENT_TILE(2, 3, 4, 1)

#endif
#endif

// The same without tensor cores, for floats: 64 outputs of 64 columns, 16 pixels at a time; a thread has four of four.
extern "C" __global__ void __launch_bounds__(256) weights_floats(const __grid_constant__ Conv c) {
    __shared__ __align__(16) float a[16][64], b[16][64];
    const float *x = (const float*)c.x, *gradients = (const float*)c.weights;
    int taps = (int)(c.taps_y * c.taps_x), columns = taps * (int)c.channels;
    int tiles_n = columns / 64, tile_m = blockIdx.x / tiles_n, tile_n = blockIdx.x - tile_m * tiles_n;
    int row = threadIdx.x / 16, at = threadIdx.x % 16 * 4;
    int column = tile_n * 64 + at, block = column / 16 / taps, tap = column / 16 % taps, tap_y = tap / (int)c.taps_x;
    int offset = block * 16 + column % 16 + tap_y * (int)c.row_stride + (tap - tap_y * (int)c.taps_x) * (int)c.pixel_stride;
    long long chunks = (c.rows + 15) / 16;
    int from = (int)(chunks * blockIdx.y / c.splits), to = (int)(chunks * (blockIdx.y + 1) / c.splits);
    float sums[4][4] = {};
    for (int i = from; i < to; i++) {
        int place = i * 16 + row;
        Pixel pixel = pixel_of(c, place);
        float4 zeros = make_float4(0, 0, 0, 0);
        float4 left = place < (int)c.rows ? *(const float4*)(gradients + place * c.outputs + tile_m * 64 + at) : zeros;
        float4 right = pixel.inside >> tap & 1 ? *(const float4*)(x + pixel.first + offset) : zeros;
        __syncthreads();
        *(float4*)&a[row][at] = left;
        *(float4*)&b[row][at] = right;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float4 left = *(const float4*)&a[k][threadIdx.x / 16 * 4], right = *(const float4*)&b[k][at];
            float l[4] = {left.x, left.y, left.z, left.w}, r[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
            for (int m = 0; m < 4; m++)
#pragma unroll
                for (int n = 0; n < 4; n++) sums[m][n] += l[m] * r[n];
        }
    }
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int n = 0; n < 4; n += 2)
            put_pair(c, columns, tile_m * 64 + threadIdx.x / 16 * 4 + m, column + n, sums[m][n], sums[m][n + 1]);
}
