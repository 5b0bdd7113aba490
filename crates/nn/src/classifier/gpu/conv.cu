// Convolutions as products of matrices whose first factor is never written down: its rows are output pixels, its columns the
// inputs that a pixel sees, tap after tap, channel after channel. Feature maps are NHWC, weights [outputs][taps][channels].
// Afterwards, in the same kernel: bias, residual, ReLU.

// All of a convolution. Every field has eight bytes, so that the host can fill it word by word.
struct Conv {
    const number* x;
    const number* weights;
    const float* bias;
    const number* residual;  // or none
    number* y;
    float* partial;  // sums of parts of the columns, where several blocks share a tile
    int* arrived;    // how many of them are there, for each tile
    long long rows;  // output pixels of all images
    long long outputs;
    long long out_pixels;  // of an image
    long long out_width;
    long long image_stride, row_stride, pixel_stride;  // of inputs, in numbers
    long long height, width;                           // of inputs; beyond are zeros
    long long stride, padding;
    long long taps_y, taps_x;
    long long channels;  // of a tap
    long long splits;    // blocks that share a tile
    long long relu;
    // What follows is for training (`training.cu`).
    const number* before;  // of gradients: what the normalisation before these inputs was given, or none
    const number* after;   // and what came of it, residual and ReLU included, where there was a residual
    const float *mean, *scale, *shift;  // of that normalisation, for each channel
    float2* sums;                       // for each 64 rows and each channel
    long long first_sums;               // 64s of rows before these
    long long out_first, out_image, out_row, out_pixel;  // where outputs go, in numbers, if not one after another
    long long residual_kind;                             // see `Residual`
    long long residual_pixels, residual_width;           // of an image
};

// Which outputs a residual is added to.
enum Residual { SAME_PLACE = 1, SAME_PIXEL = 2, EVEN_PIXELS = 3 };

// Where the inputs of an output pixel begin, and which of its taps lie inside the image.
struct Pixel {
    int first;
    u32 inside;
};

// Which of `taps` places from `first` on are at least 0 and less than `size`, as bits.
__device__ __forceinline__ u32 bits_inside(int first, int taps, int size) {
    int from = max(0, -first), to = min(taps, size - first);
    return to > from ? (1u << to) - (1u << from) : 0;
}

__device__ __forceinline__ Pixel pixel_of(const Conv& c, int row) {
    if (row >= (int)c.rows) return Pixel{0, 0};
    int image = row / (int)c.out_pixels, rest = row - image * (int)c.out_pixels;
    int out_y = rest / (int)c.out_width, out_x = rest - out_y * (int)c.out_width;
    int y = out_y * (int)c.stride - (int)c.padding, x = out_x * (int)c.stride - (int)c.padding;
    u32 rows = bits_inside(y, (int)c.taps_y, (int)c.height), columns = bits_inside(x, (int)c.taps_x, (int)c.width);
    u32 inside = 0;
#pragma unroll
    for (int r = 0; r < 4; r++) inside |= rows >> r & 1 ? columns << r * (int)c.taps_x : 0;
    return Pixel{image * (int)c.image_stride + y * (int)c.row_stride + x * (int)c.pixel_stride, inside};
}

// Walks through the columns: some channels of every tap, then the next channels. Neighbouring taps see mostly the same inputs,
// which are still in the first cache then.
struct Columns {
    int tap, tap_x, taps;
    int offset, at_row, at_block;

    __device__ __forceinline__ Columns(const Conv& c, int first, int width) {
        taps = (int)(c.taps_y * c.taps_x);
        int block = first / taps;
        tap = first - block * taps;
        int tap_y = tap / (int)c.taps_x;
        tap_x = tap - tap_y * (int)c.taps_x;
        at_block = block * width;
        at_row = at_block + tap_y * (int)c.row_stride;
        offset = at_row + tap_x * (int)c.pixel_stride;
    }

    __device__ __forceinline__ void next(const Conv& c, int width) {
        tap++, tap_x++;
        offset += (int)c.pixel_stride;
        if (tap_x < (int)c.taps_x) return;
        tap_x = 0;
        at_row += (int)c.row_stride;
        if (tap == taps) tap = 0, at_block += width, at_row = at_block;
        offset = at_row;
    }
};

#if defined(TRAINING)
// Residual, and what the normalisation needs of a tile of sums in shared memory (`training.cu`).
template <int BM, int BN, int THREADS>
__device__ __forceinline__ void finish(const Conv& c, int tile_m, int tile_n, float* room);
#endif

#if !defined(NUMBER_F32)

__device__ __forceinline__ u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

__device__ __forceinline__ void copy_16(u32 to, const void* from, bool is_there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0));
}

// Eight numbers that nobody writes while this kernel runs.
__device__ __forceinline__ Quad read_once(const number* from) {
    uint4 x = __ldg((const uint4*)from);
    return Quad{{x.x, x.y, x.z, x.w}};
}

__device__ __forceinline__ void matrices(u32 r[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

#if defined(NUMBER_F16)
#define MULTIPLY "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define MULTIPLY "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif

__device__ __forceinline__ void multiply_add(float c[4], const u32 a[4], u32 b0, u32 b1) {
    asm volatile(MULTIPLY " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Columns that are fetched at a time: 128 bytes of a row.
constexpr int COLUMNS = 64;

// Adds up what the blocks of a tile have, each thread its own four times `FOURS` sums, in the order of the blocks. Only the last
// to arrive goes on.
template <int FOURS, int THREADS>
__device__ __forceinline__ bool join(float* sums, const Conv& c, int tile, int tiles, int* last) {
    float4* mine = (float4*)c.partial + ((long long)blockIdx.y * tiles + tile) * FOURS * THREADS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < FOURS; i++)
        mine[i * THREADS] = make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *last = atomicAdd(c.arrived + tile, 1) == (int)c.splits - 1;
    __syncthreads();
    if (!*last) return false;
    __threadfence();
    if (threadIdx.x == 0) c.arrived[tile] = 0;  // for the next convolution
#pragma unroll
    for (int i = 0; i < 4 * FOURS; i++) sums[i] = 0.0f;
    for (int split = 0; split < (int)c.splits; split++) {
        const float4* part = (const float4*)c.partial + ((long long)split * tiles + tile) * FOURS * THREADS + threadIdx.x;
#pragma unroll
        for (int i = 0; i < FOURS; i++) {
            float4 x = __ldcg(part + i * THREADS);
            sums[4 * i] += x.x, sums[4 * i + 1] += x.y, sums[4 * i + 2] += x.z, sums[4 * i + 3] += x.w;
        }
    }
    return true;
}

#if !defined(TRAINING)
// Bias, residual and ReLU of a tile of sums in shared memory, written in whole rows.
template <int BM, int BN, int THREADS>
__device__ __forceinline__ void finish(const Conv& c, int tile_m, int tile_n, float* room) {
    constexpr int PITCH = BN + 4, EIGHTS = BN / 8, ROWS_AT_ONCE = THREADS / EIGHTS;
    constexpr int GROUP = BM / ROWS_AT_ONCE < 4 ? BM / ROWS_AT_ONCE : 4;
    int eight = threadIdx.x % EIGHTS, column = tile_n * BN + eight * 8;
    float bias[8];
    read_floats(c.bias + column, bias);
    for (int first = threadIdx.x / EIGHTS; first < BM; first += GROUP * ROWS_AT_ONCE) {
        Quad others[GROUP];  // all on their way before the first is needed
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            int pixel = tile_m * BM + first + i * ROWS_AT_ONCE;
            if (c.residual && pixel < (int)c.rows)
                others[i] = read_once(c.residual + (long long)pixel * c.outputs + column);
        }
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            int row = first + i * ROWS_AT_ONCE, pixel = tile_m * BM + row;
            float x[8];
            read_floats(room + row * PITCH + eight * 8, x);
#pragma unroll
            for (int k = 0; k < 8; k++) {
                x[k] += bias[k];
                if (c.residual) x[k] += k % 2 ? high(others[i].word[k / 2]) : low(others[i].word[k / 2]);
                if (c.relu) x[k] = fmaxf(x[k], 0.0f);
            }
            if (pixel < (int)c.rows) write_8(c.y + (long long)pixel * c.outputs + column, x);
        }
    }
}
#endif

// A block computes BM pixels of BN channels, a warp of it WM of WN. STAGES tiles of inputs and weights are on their way.
// Sixteen bytes of a row lie at their place XOR the row, so that no two of eight rows begin in the same bank.
template <int BM, int BN, int WM, int WN, int STAGES>
struct Tile {
    static constexpr int WARPS_N = BN / WN;
    static constexpr int THREADS = BM / WM * WARPS_N * 32;
    static constexpr int STEP = THREADS / 8;  // rows that all threads fetch at once
    static constexpr int A_ROWS = BM / STEP, B_ROWS = BN / STEP;
    static constexpr int STAGE_BYTES = (BM + BN) * COLUMNS * 2;
    static constexpr int MS = WM / 16, NS = WN / 16;
    static constexpr int PITCH = BN + 4;

    float sums[MS][2 * NS][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < MS; i++)
#pragma unroll
            for (int j = 0; j < 2 * NS; j++)
#pragma unroll
                for (int k = 0; k < 4; k++) sums[i][j][k] = 0.0f;
    }

    __device__ __forceinline__ void fragments(u32 a[MS][4], u32 b[NS][4], u32 a_base, u32 b_base, int step, int lane) {
        u32 a_place = ((2 * step + (lane >> 4)) ^ (lane & 7)) << 4;
        u32 b_place = ((2 * step + ((lane >> 3) & 1)) ^ (lane & 7)) << 4;
#pragma unroll
        for (int i = 0; i < MS; i++) matrices(a[i], a_base + i * 16 * 128 + a_place);
#pragma unroll
        for (int j = 0; j < NS; j++) matrices(b[j], b_base + j * 16 * 128 + b_place);
    }

    // One stage: four steps of 16 columns. Fragments of the next step are read while this one multiplies.
    __device__ __forceinline__ void multiply(u32 stage, int warp_m, int warp_n, int lane) {
        u32 a_base = stage + (warp_m * WM + (lane & 15)) * 128;
        u32 b_base = stage + BM * 128 + (warp_n * WN + (lane & 7) + ((lane >> 4) << 3)) * 128;
        u32 a[2][MS][4], b[2][NS][4];
        fragments(a[0], b[0], a_base, b_base, 0, lane);
#pragma unroll
        for (int step = 0; step < 4; step++) {
            if (step < 3) fragments(a[(step + 1) & 1], b[(step + 1) & 1], a_base, b_base, step + 1, lane);
#pragma unroll
            for (int i = 0; i < MS; i++)
#pragma unroll
                for (int j = 0; j < NS; j++) {
                    multiply_add(sums[i][2 * j], a[step & 1][i], b[step & 1][j][0], b[step & 1][j][1]);
                    multiply_add(sums[i][2 * j + 1], a[step & 1][i], b[step & 1][j][2], b[step & 1][j][3]);
                }
        }
    }

    __device__ __forceinline__ void accumulate(const Conv& c, int tile_m, int tile_n, int from, int to, u32 room,
                                               Pixel* all_pixels) {
        int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
        int chunk = thread & 7, row = thread >> 3;
        // Eight threads fetch a row; each pixel is found once.
        for (int i = thread; i < BM; i += THREADS) all_pixels[i] = pixel_of(c, tile_m * BM + i);
        __syncthreads();
        Pixel pixels[A_ROWS];
#pragma unroll
        for (int i = 0; i < A_ROWS; i++) pixels[i] = all_pixels[row + i * STEP];
        int all_columns = (int)(c.taps_y * c.taps_x * c.channels);
        const number* weights = c.weights + (long long)(tile_n * BN + row) * all_columns + from * COLUMNS + chunk * 8;
        const number* inputs = c.x + chunk * 8;
        u32 place = row * 128 + ((chunk ^ (row & 7)) << 4);
        Columns columns(c, from, COLUMNS);
        auto fetch = [&](int number_of) {
            u32 stage = room + (number_of % STAGES) * STAGE_BYTES + place;
#pragma unroll
            for (int i = 0; i < A_ROWS; i++) {
                bool is_there = pixels[i].inside >> columns.tap & 1;
                copy_16(stage + i * STEP * 128, inputs + (is_there ? pixels[i].first + columns.offset : 0), is_there);
            }
#pragma unroll
            for (int i = 0; i < B_ROWS; i++)
                copy_16(stage + (BM + i * STEP) * 128, weights + (long long)i * STEP * all_columns, true);
            weights += COLUMNS;
            columns.next(c, COLUMNS);
        };
        int count = to - from;
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) {
            if (i < count) fetch(i);
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        for (int i = 0; i < count; i++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncthreads();
            if (i + STAGES - 1 < count) fetch(i + STAGES - 1);
            asm volatile("cp.async.commit_group;" ::: "memory");
            multiply(room + (i % STAGES) * STAGE_BYTES, warp / WARPS_N, warp % WARPS_N, lane);
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
    }

    __device__ __forceinline__ void put_sums(float* room) {
        int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
        int first_row = warp / WARPS_N * WM + (lane >> 2), first_column = warp % WARPS_N * WN + 2 * (lane & 3);
#pragma unroll
        for (int i = 0; i < MS; i++)
#pragma unroll
            for (int j = 0; j < 2 * NS; j++) {
                float* to = room + (first_row + i * 16) * PITCH + first_column + j * 8;
                *(float2*)to = make_float2(sums[i][j][0], sums[i][j][1]);
                *(float2*)(to + 8 * PITCH) = make_float2(sums[i][j][2], sums[i][j][3]);
            }
    }

    static __device__ __forceinline__ void run(const Conv& c) {
        extern __shared__ Quad room[];
        __shared__ int last;
        __shared__ Pixel pixels[BM];
        int tiles_n = (int)c.outputs / BN, tile_m = blockIdx.x / tiles_n, tile_n = blockIdx.x - tile_m * tiles_n;
        int blocks = (int)(c.taps_y * c.taps_x * c.channels) / COLUMNS;
        int from = (int)((long long)blocks * blockIdx.y / c.splits), to = (int)((long long)blocks * (blockIdx.y + 1) / c.splits);
        Tile tile;
        tile.clear();
        tile.accumulate(c, tile_m, tile_n, from, to, shared_address(room), pixels);
        if (c.splits > 1 && !join<MS * 2 * NS, THREADS>((float*)tile.sums, c, blockIdx.x, gridDim.x, &last)) return;
        tile.put_sums((float*)room);
        __syncthreads();
        finish<BM, BN, THREADS>(c, tile_m, tile_n, (float*)room);
    }
};

#define TILE(BM, BN, WM, WN, STAGES, BLOCKS)                                                       \
    extern "C" __global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, BLOCKS)                 \
        conv_##BM##x##BN##_##WM##x##WN(const __grid_constant__ Conv c) {                           \
        Tile<BM, BN, WM, WN, STAGES>::run(c);                                                      \
    }

TILE(256, 128, 64, 64, 3, 1)
TILE(128, 128, 64, 64, 3, 2)
TILE(128, 128, 64, 32, 3, 2)
TILE(256, 64, 64, 64, 2, 2)
TILE(128, 64, 64, 32, 4, 2)
TILE(128, 64, 32, 64, 3, 3)
TILE(64, 128, 32, 64, 3, 3)
TILE(64, 64, 32, 32, 4, 3)
TILE(32, 64, 16, 32, 4, 4)
TILE(256, 64, 64, 32, 2, 1)
TILE(256, 128, 64, 32, 2, 1)

#endif

// The same without tensor cores, for floats.

// Columns at a time, pixels and channels of a block; a thread has 8 pixels of 4 channels.
constexpr int DEPTH = 16, ROWS = 128, WIDTH = 64, FLOAT_THREADS = 256;

extern "C" __global__ void __launch_bounds__(FLOAT_THREADS) conv_floats(const __grid_constant__ Conv c) {
    __shared__ __align__(16) float memory[2 * DEPTH * (ROWS + 4 + WIDTH + 4)];
    auto a = (float (*)[DEPTH][ROWS + 4])memory;
    auto b = (float (*)[DEPTH][WIDTH + 4])(memory + 2 * DEPTH * (ROWS + 4));
    const float* x = (const float*)c.x;
    int tiles_n = (int)c.outputs / WIDTH, tile_m = blockIdx.x / tiles_n, tile_n = blockIdx.x - tile_m * tiles_n;
    int thread = threadIdx.x, chunk = thread & 3, row = thread >> 2;
    int all_columns = (int)(c.taps_y * c.taps_x * c.channels), count = all_columns / DEPTH;
    Pixel pixels[2] = {pixel_of(c, tile_m * ROWS + row), pixel_of(c, tile_m * ROWS + row + 64)};
    const float* weights = (const float*)c.weights + (long long)(tile_n * WIDTH + row) * all_columns + chunk * 4;
    Columns columns(c, 0, DEPTH);
    float4 from_x[2], from_weights;
    auto fetch = [&]() {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            bool is_there = pixels[i].inside >> columns.tap & 1;
            from_x[i] = is_there ? *(const float4*)(x + pixels[i].first + columns.offset + chunk * 4) : make_float4(0, 0, 0, 0);
        }
        from_weights = *(const float4*)weights;
        weights += DEPTH;
        columns.next(c, DEPTH);
    };
    auto store = [&](int stage) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float* from = (const float*)&from_x[i];
#pragma unroll
            for (int k = 0; k < 4; k++) a[stage][chunk * 4 + k][row + 64 * i] = from[k];
        }
        const float* from = (const float*)&from_weights;
#pragma unroll
        for (int k = 0; k < 4; k++) b[stage][chunk * 4 + k][row] = from[k];
    };
    float sums[8][4] = {};
    int rows_at = thread / 16 * 8, columns_at = thread % 16 * 4;
    fetch();
    store(0);
    __syncthreads();
    for (int i = 0; i < count; i++) {
        if (i + 1 < count) fetch();
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            float left[8];
            read_floats(&a[i & 1][k][rows_at], left);
            float4 right = *(const float4*)&b[i & 1][k][columns_at];
#pragma unroll
            for (int r = 0; r < 8; r++) {
                sums[r][0] += left[r] * right.x, sums[r][1] += left[r] * right.y;
                sums[r][2] += left[r] * right.z, sums[r][3] += left[r] * right.w;
            }
        }
        if (i + 1 < count) store((i + 1) & 1);
        __syncthreads();
    }
#if defined(TRAINING)
    for (int half = 0; half < 2; half++) {  // as many rows as there is room for
        if (rows_at / 64 == half)
#pragma unroll
            for (int r = 0; r < 8; r++)
                *(float4*)(memory + (rows_at % 64 + r) * (WIDTH + 4) + columns_at) =
                    make_float4(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
        __syncthreads();
        finish<64, WIDTH, FLOAT_THREADS>(c, tile_m * 2 + half, tile_n, memory);
        __syncthreads();
    }
#else
    const float* residual = (const float*)c.residual;
    float* y = (float*)c.y;
    int column = tile_n * WIDTH + columns_at;
    float4 bias = *(const float4*)(c.bias + column);
#pragma unroll
    for (int r = 0; r < 8; r++) {
        int pixel = tile_m * ROWS + rows_at + r;
        if (pixel >= (int)c.rows) break;
        long long place = (long long)pixel * c.outputs + column;
        float4 out = make_float4(sums[r][0] + bias.x, sums[r][1] + bias.y, sums[r][2] + bias.z, sums[r][3] + bias.w);
        if (residual) {
            float4 other = *(const float4*)(residual + place);
            out.x += other.x, out.y += other.y, out.z += other.z, out.w += other.w;
        }
        if (c.relu) out.x = fmaxf(out.x, 0.0f), out.y = fmaxf(out.y, 0.0f), out.z = fmaxf(out.z, 0.0f), out.w = fmaxf(out.w, 0.0f);
        *(float4*)(y + place) = out;
    }
#endif
}
