// The same convolutions by the matrix instructions of compute capability 9.0: a group of four warps multiplies 64 rows at a time,
// straight from shared memory. Compiled for that capability alone (`HOPPER`); tiles lie in shared memory as `conv.cu` has them.

#if defined(HOPPER) && !defined(NUMBER_F32)

typedef unsigned long long u64;

// Where a matrix begins: rows of 128 bytes, eight of which are one pattern of XORs.
__device__ __forceinline__ u64 matrix_at(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#if defined(NUMBER_F16)
#define KIND "f32.f16.f16"
#else
#define KIND "f32.bf16.bf16"
#endif

#define FOUR(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define EIGHT_FOURS(j) \
    FOUR(j), FOUR(j + 1), FOUR(j + 2), FOUR(j + 3), FOUR(j + 4), FOUR(j + 5), FOUR(j + 6), FOUR(j + 7)

// Adds the product of 64 rows and 16 columns of one matrix with as many columns of another.
__device__ __forceinline__ void multiply_64(float (&d)[8][4], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16." KIND
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
        " %32, %33, 1, 1, 1, 0, 0;"
        : EIGHT_FOURS(0)
        : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_64(float (&d)[16][4], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16." KIND
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
        "%62,%63}, %64, %65, 1, 1, 1, 0, 0;"
        : EIGHT_FOURS(0), EIGHT_FOURS(8)
        : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_64(float (&d)[32][4], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16." KIND
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
        "%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,"
        "%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,"
        "%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, 1, 1, 1, 0, 0;"
        : EIGHT_FOURS(0), EIGHT_FOURS(8), EIGHT_FOURS(16), EIGHT_FOURS(24)
        : "l"(a), "l"(b));
}

// BM pixels of BN channels by GROUPS groups of four warps, each of which has BM / GROUPS of the pixels. Where channels come FIRST, they
// are the rows of the product, and each group has BN / GROUPS of them: with few channels less is read from shared memory so.
template <int BM, int BN, int GROUPS, int STAGES, bool FIRST = false>
struct HopperTile {
    static constexpr int THREADS = GROUPS * 128;
    static constexpr int STEP = THREADS / 8;
    static constexpr int A_ROWS = BM / STEP, B_ROWS = BN / STEP;
    static constexpr int STAGE_BYTES = (BM + BN) * COLUMNS * 2;
    static constexpr int MS = (FIRST ? BN : BM) / GROUPS / 64, NS = (FIRST ? BM : BN) / 8;
    static constexpr int PITCH = BN + 4;

    float sums[MS][NS][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < MS; i++)
#pragma unroll
            for (int j = 0; j < NS; j++)
#pragma unroll
                for (int k = 0; k < 4; k++) sums[i][j][k] = 0.0f;
    }

    // Asks for the products of a stage; they are there when they were waited for.
    __device__ __forceinline__ void multiply(u32 stage, int group) {
        u32 pixels = stage, channels = stage + BM * 128;
        u64 a = FIRST ? matrix_at(channels + group * (BN / GROUPS) * 128) : matrix_at(pixels + group * (BM / GROUPS) * 128);
        u64 b = FIRST ? matrix_at(pixels) : matrix_at(channels);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < 4; step++)
#pragma unroll
            for (int i = 0; i < MS; i++) multiply_64(sums[i], a + i * 64 * 128 / 16 + step * 2, b + step * 2);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }

    __device__ __forceinline__ void accumulate(const Conv& c, int tile_m, int tile_n, int from, int to, u32 room,
                                               Pixel* all_pixels) {
        int thread = threadIdx.x, chunk = thread & 7, row = thread >> 3, group = thread / 128;
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
            // What was copied is seen by the matrix instructions of all.
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            // Another group may still multiply the stage that is fetched next.
            if (GROUPS > 1) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            __syncthreads();
            multiply(room + (i % STAGES) * STAGE_BYTES, group);
            if (GROUPS == 1) asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (i + STAGES - 1 < count) fetch(i + STAGES - 1);
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int i = 0; i < MS; i++)
#pragma unroll
            for (int j = 0; j < NS; j++)
#pragma unroll
                for (int k = 0; k < 4; k++) asm volatile("" : "+f"(sums[i][j][k])::"memory");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
    }

    __device__ __forceinline__ void put_sums(float* room) {
        int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5 & 3;
        if (FIRST) {
            float* first = room + 2 * (lane & 3) * PITCH + thread / 128 * (BN / GROUPS) + warp * 16 + (lane >> 2);
#pragma unroll
            for (int i = 0; i < MS; i++)
#pragma unroll
                for (int j = 0; j < NS; j++)
#pragma unroll
                    for (int k = 0; k < 4; k++) first[(j * 8 + k % 2) * PITCH + i * 64 + k / 2 * 8] = sums[i][j][k];
            return;
        }
        int first_row = thread / 128 * (BM / GROUPS) + warp * 16 + (lane >> 2), first_column = 2 * (lane & 3);
#pragma unroll
        for (int i = 0; i < MS; i++)
#pragma unroll
            for (int j = 0; j < NS; j++) {
                float* to = room + (first_row + i * 64) * PITCH + first_column + j * 8;
                *(float2*)to = make_float2(sums[i][j][0], sums[i][j][1]);
                *(float2*)(to + 8 * PITCH) = make_float2(sums[i][j][2], sums[i][j][3]);
            }
    }

    static __device__ __forceinline__ void run(const Conv& c) {
        extern __shared__ Quad memory[];
        __shared__ int last;
        __shared__ Pixel pixels[BM];
        Quad* room = memory + (-shared_address(memory) & 1023) / sizeof(Quad);  // patterns of XORs begin at such places
        int tiles_n = (int)c.outputs / BN, tile_m = blockIdx.x / tiles_n, tile_n = blockIdx.x - tile_m * tiles_n;
        int blocks = (int)(c.taps_y * c.taps_x * c.channels) / COLUMNS;
        int from = (int)((long long)blocks * blockIdx.y / c.splits), to = (int)((long long)blocks * (blockIdx.y + 1) / c.splits);
        HopperTile tile;
        tile.clear();
        tile.accumulate(c, tile_m, tile_n, from, to, shared_address(room), pixels);
        if (c.splits > 1 && !join<MS * NS, THREADS>((float*)tile.sums, c, blockIdx.x, gridDim.x, &last)) return;
        tile.put_sums((float*)room);
        __syncthreads();
        finish<BM, BN, THREADS>(c, tile_m, tile_n, (float*)room);
    }
};

#define HOPPER_TILE(BM, BN, GROUPS, STAGES, BLOCKS)                                \
    extern "C" __global__ void __launch_bounds__(GROUPS * 128, BLOCKS)             \
        hopper_##BM##x##BN##_##STAGES(const __grid_constant__ Conv c) {            \
        HopperTile<BM, BN, GROUPS, STAGES>::run(c);                                \
    }

HOPPER_TILE(256, 128, 2, 3, 1)
HOPPER_TILE(256, 64, 1, 2, 2)
HOPPER_TILE(256, 64, 2, 3, 1)
HOPPER_TILE(128, 128, 1, 3, 2)
HOPPER_TILE(128, 64, 1, 3, 3)
HOPPER_TILE(64, 128, 1, 3, 3)
HOPPER_TILE(64, 64, 1, 4, 3)

#define CHANNELS_FIRST_TILE(BM, BN, GROUPS, STAGES, BLOCKS)                        \
    extern "C" __global__ void __launch_bounds__(GROUPS * 128, BLOCKS)             \
        hopper_first_##BM##x##BN##_##STAGES(const __grid_constant__ Conv c) {      \
        HopperTile<BM, BN, GROUPS, STAGES, true>::run(c);                          \
    }

CHANNELS_FIRST_TILE(256, 64, 1, 2, 2)
CHANNELS_FIRST_TILE(256, 128, 2, 3, 1)

#endif
