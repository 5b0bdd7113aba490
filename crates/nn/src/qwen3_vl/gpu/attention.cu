// Softmax attention without its matrix in memory: a block has 64 queries of one head, meets 64 keys at a time, and keeps
// the largest score and the sum of each query as it goes. Products by the tensor cores (m16n8k16), sums in floats.

constexpr int TILE = 64;
constexpr int THREADS = 128;
// Minus infinity.
#define LEAST __int_as_float(0xff800000)

struct Sequences {
    // Where the queries and keys of each sequence begin among all rows, and how many there are.
    const int *q_start, *q_len, *k_start, *k_len;
};

struct Heads {
    // Numbers from row to row; heads lie side by side.
    const bf16 *q, *k, *v;
    bf16* out;
    // Of each query and head the logarithm (to base two) of the sum of its powers; or nothing.
    float* log_sums;
    int q_stride, k_stride, v_stride, out_stride;
    // Query heads that share a head of keys.
    int group;
};

struct Prefix {
    // Keys and values that come before those of every sequence.
    const bf16 *k, *v;
    int stride, len;
};

__device__ __forceinline__ u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

__device__ __forceinline__ void copy_16(u32 to, const void* from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0));
}

__device__ __forceinline__ void copies_asked() { asm volatile("cp.async.commit_group;" ::: "memory"); }

__device__ __forceinline__ void copies_done() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

__device__ __forceinline__ float power_of_two(float x) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}

__device__ __forceinline__ void matrices(u32 r[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

__device__ __forceinline__ void matrices_turned(u32 r[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

__device__ __forceinline__ void multiply_add(float c[4], const u32 a[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// `WIDTH` numbers a head, a multiple of eight; in shared memory filled with zeros to a multiple of 16.
template <int WIDTH, bool CAUSAL>
__device__ __forceinline__ void attend(Heads heads, Sequences sequences, Prefix prefix, float scale) {
    constexpr int D = (WIDTH + 15) / 16 * 16;
    constexpr int PITCH = D + 8;  // rows begin in other banks
    extern __shared__ Eight room[];
    // Two tiles of keys and two of values: one is fetched while the other is used. The second first holds the queries.
    typedef bf16 Tile[TILE][PITCH];
    Tile *keys = (Tile*)room, *values = keys + 2;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int head = blockIdx.y, sequence = blockIdx.z, first = blockIdx.x * TILE;
    int q_len = sequences.q_len[sequence];
    if (first >= q_len) return;
    int q_start = sequences.q_start[sequence], k_start = sequences.k_start[sequence];
    int total = prefix.len + sequences.k_len[sequence];
    int before = total - q_len;  // keys before the one of the first query
    int q_column = head * WIDTH, k_column = head / heads.group * WIDTH;

    auto load = [&](Tile& to, const bf16* from, int stride, int rows) {
#pragma unroll
        for (int i = threadIdx.x; i < TILE * (D / 8); i += THREADS) {
            int row = i / (D / 8), column = i % (D / 8) * 8;
            bool is_there = row < rows && column < WIDTH;
            copy_16(shared_address(&to[row][column]), is_there ? from + row * stride + column : from, is_there);
        }
    };
    // Rows of two places, the first `split` of them from the one.
    auto load_both = [&](Tile& to, const bf16* one, int one_stride, int split, const bf16* other, int stride, int rows) {
#pragma unroll
        for (int i = threadIdx.x; i < TILE * (D / 8); i += THREADS) {
            int row = i / (D / 8), column = i % (D / 8) * 8;
            bool is_there = row < rows && column < WIDTH;
            const bf16* from = row < split ? one + row * one_stride : other + row * stride;
            copy_16(shared_address(&to[row][column]), is_there ? from + column : one, is_there);
        }
    };
    auto load_keys = [&](int tile) {
        int key = tile * TILE, rows = total - key;
        long long row = k_start + key - prefix.len;
        const bf16 *k = heads.k + row * heads.k_stride + k_column, *v = heads.v + row * heads.v_stride + k_column;
        long long shared = (long long)key * prefix.stride + k_column;
        int of_prefix = prefix.len - key;  // rows of this tile that come before the sequence
        if (of_prefix <= 0) {
            load(keys[tile % 2], k, heads.k_stride, rows);
            load(values[tile % 2], v, heads.v_stride, rows);
        } else {
            load_both(keys[tile % 2], prefix.k + shared, prefix.stride, of_prefix, k, heads.k_stride, rows);
            load_both(values[tile % 2], prefix.v + shared, prefix.stride, of_prefix, v, heads.v_stride, rows);
        }
        copies_asked();
    };
    load(keys[1], heads.q + (u64)(q_start + first) * heads.q_stride + q_column, heads.q_stride, q_len - first);
    load_keys(0);
    copies_done();
    __syncthreads();
    u32 queries[D / 16][4];
#pragma unroll
    for (int d = 0; d < D / 16; d++)
        matrices(queries[d], shared_address(&keys[1][warp * 16 + lane % 16][d * 16 + lane / 16 * 8]));

    float out[D / 8][4] = {}, most[2] = {LEAST, LEAST}, sums[2] = {};
    int query = first + warp * 16 + lane / 4;  // and the one eight after it
    int last = min(first + TILE, q_len) - 1 + before;
    int tiles = (CAUSAL ? last : total - 1) / TILE + 1;
    for (int tile = 0; tile < tiles; tile++) {
        copies_done();
        __syncthreads();  // and nobody uses the other tiles any more
        if (tile + 1 < tiles) load_keys(tile + 1);
        const Tile &k_tile = keys[tile % 2], &v_tile = values[tile % 2];

        float scores[TILE / 8][4] = {};
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
#pragma unroll
            for (int n = 0; n < TILE / 8; n += 2) {
                u32 k[4];
                matrices(k, shared_address(&k_tile[n * 8 + lane % 8 + lane / 16 * 8][d * 16 + lane / 8 % 2 * 8]));
                multiply_add(scores[n], queries[d], k[0], k[1]);
                multiply_add(scores[n + 1], queries[d], k[2], k[3]);
            }
        }

        bool has_hidden = (tile + 1) * TILE > (CAUSAL ? min(total, first + warp * 16 + before + 1) : total);
        if (has_hidden) {
#pragma unroll
            for (int n = 0; n < TILE / 8; n++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int key = tile * TILE + n * 8 + lane % 4 * 2 + j % 2;
                    bool is_hidden = key >= total || (CAUSAL && key > query + j / 2 * 8 + before);
                    if (is_hidden) scores[n][j] = LEAST;
                }
            }
        }
        float largest[2] = {most[0], most[1]};
#pragma unroll
        for (int n = 0; n < TILE / 8; n++) {
#pragma unroll
            for (int j = 0; j < 4; j++) largest[j / 2] = fmaxf(largest[j / 2], scores[n][j]);
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            largest[h] = fmaxf(largest[h], __shfl_xor_sync(~0u, largest[h], 1));
            largest[h] = fmaxf(largest[h], __shfl_xor_sync(~0u, largest[h], 2));
            float shrink = power_of_two((most[h] - largest[h]) * scale);
            most[h] = largest[h];
            sums[h] *= shrink;
#pragma unroll
            for (int n = 0; n < D / 8; n++) out[n][2 * h] *= shrink, out[n][2 * h + 1] *= shrink;
        }
        u32 shares[TILE / 16][4];
        float least[2] = {-most[0] * scale, -most[1] * scale};
#pragma unroll
        for (int n = 0; n < TILE / 8; n++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                scores[n][j] = power_of_two(fmaf(scores[n][j], scale, least[j / 2]));
                sums[j / 2] += scores[n][j];
            }
            shares[n / 2][n % 2 * 2] = rounded(scores[n][0], scores[n][1]);
            shares[n / 2][n % 2 * 2 + 1] = rounded(scores[n][2], scores[n][3]);
        }
#pragma unroll
        for (int k = 0; k < TILE / 16; k++) {
#pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                u32 v[4];
                matrices_turned(v, shared_address(&v_tile[k * 16 + lane % 16][n * 8 + lane / 16 * 8]));
                multiply_add(out[n], shares[k], v[0], v[1]);
                multiply_add(out[n + 1], shares[k], v[2], v[3]);
            }
        }
    }

#pragma unroll
    for (int h = 0; h < 2; h++) {
        sums[h] += __shfl_xor_sync(~0u, sums[h], 1);
        sums[h] += __shfl_xor_sync(~0u, sums[h], 2);
        int row = query + h * 8;
        if (row >= q_len) continue;
        float share = 1.0f / sums[h];
        if (heads.log_sums && lane % 4 == 0)
            heads.log_sums[(u64)(q_start + row) * gridDim.y + head] = most[h] * scale + log2f(sums[h]);
        bf16* to = heads.out + (u64)(q_start + row) * heads.out_stride + q_column;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            int column = n * 8 + lane % 4 * 2;
            if (column < WIDTH) *(u32*)(to + column) = rounded(out[n][2 * h] * share, out[n][2 * h + 1] * share);
        }
    }
}

// `scale` is that of scores, times the logarithm that makes powers of e powers of two.
extern "C" __global__ void __launch_bounds__(THREADS, 3) attend_text(
    const bf16* q, int q_stride, const bf16* k, int k_stride, const bf16* v, int v_stride, bf16* out, int out_stride, int group,
    const int* q_start, const int* q_len, const int* k_start, const int* k_len, const bf16* prefix_k,
    const bf16* prefix_v, int prefix_stride, int prefix_len, float scale, float* log_sums) {
    attend<2 * TEXT_HALF, true>(
        {q, k, v, out, log_sums, q_stride, k_stride, v_stride, out_stride, group}, {q_start, q_len, k_start, k_len},
        {prefix_k, prefix_v, prefix_stride, prefix_len}, scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) attend_vision(
    const bf16* q, int q_stride, const bf16* k, int k_stride, const bf16* v, int v_stride, bf16* out, int out_stride, int group,
    const int* q_start, const int* q_len, const int* k_start, const int* k_len, const bf16* prefix_k,
    const bf16* prefix_v, int prefix_stride, int prefix_len, float scale, float* log_sums) {
    attend<2 * VISION_HALF, false>(
        {q, k, v, out, log_sums, q_stride, k_stride, v_stride, out_stride, group}, {q_start, q_len, k_start, k_len},
        {prefix_k, prefix_v, prefix_stride, prefix_len}, scale);
}
