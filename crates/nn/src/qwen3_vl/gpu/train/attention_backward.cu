// The backward pass of attention, without its matrix in memory: shares are computed again from the logarithms of their sums.
// One kernel gives the gradients of queries, one those of keys and values, so that every sum has one order.

// What the kernels take; every field has eight bytes.
struct AttentionBackward {
    // Queries, keys and values as they met, and numbers from row to row of each; heads lie side by side.
    const bf16 *q, *k, *v;
    long long q_stride, k_stride, v_stride;
    // Query heads that share a head of keys.
    long long group;
    // Where sequences begin among all rows, and how long they are.
    const int *starts, *lengths;
    // The gradient of what attention gives.
    const bf16* out;
    long long out_stride;
    // `[queries, heads]`: logarithms of sums, and the products of outputs with their gradients.
    const float *log_sums, *products;
    // Where the gradients go.
    bf16 *dq, *dk, *dv;
    long long stride;
};

// Products of rows with their gradients, head by head. A warp per head.
template <int WIDTH>
__device__ __forceinline__ void multiply_heads(
    const bf16* out, const bf16* grads, int stride, int grad_stride, float* products, int heads) {
    int head = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (head >= heads) return;
    const bf16* own = out + (u64)blockIdx.x * stride + head * WIDTH;
    const bf16* up = grads + (u64)blockIdx.x * grad_stride + head * WIDTH;
    float sum = 0.0f;
    for (int i = lane * 2; i < WIDTH; i += 64) {
        u32 a = *(const u32*)(own + i), b = *(const u32*)(up + i);
        sum += low(a) * low(b) + high(a) * high(b);
    }
    sum = warp_sum(sum);
    if (lane == 0) products[(u64)blockIdx.x * heads + head] = sum;
}

extern "C" __global__ void multiply_heads_text(
    const bf16* out, int stride, const bf16* grads, int grad_stride, float* products, int heads) {
    multiply_heads<2 * TEXT_HALF>(out, grads, stride, grad_stride, products, heads);
}

extern "C" __global__ void multiply_heads_vision(
    const bf16* out, int stride, const bf16* grads, int grad_stride, float* products, int heads) {
    multiply_heads<2 * VISION_HALF>(out, grads, stride, grad_stride, products, heads);
}

// Rows of a head to shared memory; those that are not there are zeros.
template <int WIDTH, int ROWS, int PITCH>
__device__ __forceinline__ void load_head_rows(bf16 (*to)[PITCH], const bf16* from, int stride, int rows) {
    constexpr int EIGHTS = (PITCH - 8) / 8;
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * EIGHTS; i += THREADS) {
        int row = i / EIGHTS, column = i % EIGHTS * 8;
        bool is_there = row < rows && column < WIDTH;
        copy_16(shared_address(&to[row][column]), is_there ? from + (u64)row * stride + column : from, is_there);
    }
}

// Writes 16 rows of a warp, `factor` times as large.
template <int WIDTH, int D>
__device__ __forceinline__ void write_rows(bf16* to, int stride, int rows, const float sums[D / 8][4], float factor) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = lane / 4 + h * 8;
        if (row >= rows) continue;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            int column = n * 8 + lane % 4 * 2;
            if (column < WIDTH)
                *(u32*)(to + (u64)row * stride + column) = rounded(sums[n][2 * h] * factor, sums[n][2 * h + 1] * factor);
        }
    }
}

// A block has 64 queries of one head and meets all their keys.
template <int WIDTH, bool CAUSAL>
__device__ __forceinline__ void attend_backward_queries(
    const AttentionBackward& pass, float scale, float grad_scale) {
    constexpr int D = (WIDTH + 15) / 16 * 16, PITCH = D + 8;
    extern __shared__ Eight room[];
    typedef bf16 Tile[TILE][PITCH];
    Tile *keys = (Tile*)room, *values = keys + 2;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int head = blockIdx.y, sequence = blockIdx.z, first = blockIdx.x * TILE;
    int length = pass.lengths[sequence], start = pass.starts[sequence];
    if (first >= length) return;
    int q_column = head * WIDTH, k_column = head / (int)pass.group * WIDTH;
    auto load_keys = [&](int tile) {
        u64 row = (u64)(start + tile * TILE) * pass.k_stride + k_column;
        u64 v_row = (u64)(start + tile * TILE) * pass.v_stride + k_column;
        load_head_rows<WIDTH, TILE, PITCH>(keys[tile % 2], pass.k + row, pass.k_stride, length - tile * TILE);
        load_head_rows<WIDTH, TILE, PITCH>(values[tile % 2], pass.v + v_row, pass.v_stride, length - tile * TILE);
        copies_asked();
    };
    load_head_rows<WIDTH, TILE, PITCH>(
        keys[1], pass.q + (u64)(start + first) * pass.q_stride + q_column, pass.q_stride, length - first);
    load_head_rows<WIDTH, TILE, PITCH>(
        values[1], pass.out + (u64)(start + first) * pass.out_stride + q_column, pass.out_stride, length - first);
    load_keys(0);
    copies_done();
    __syncthreads();
    u32 queries[D / 16][4], outs[D / 16][4];
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        matrices(queries[d], shared_address(&keys[1][warp * 16 + lane % 16][d * 16 + lane / 16 * 8]));
        matrices(outs[d], shared_address(&values[1][warp * 16 + lane % 16][d * 16 + lane / 16 * 8]));
    }
    int query = first + warp * 16 + lane / 4;  // and the one eight after it
    float log_sums[2], products[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        u64 at = (u64)(start + query + h * 8) * gridDim.y + head;
        bool is_there = query + h * 8 < length;
        log_sums[h] = is_there ? pass.log_sums[at] : 0.0f;
        products[h] = is_there ? pass.products[at] : 0.0f;
    }
    float sums[D / 8][4] = {};
    int last = min(first + TILE, length) - 1;
    int tiles = (CAUSAL ? last : length - 1) / TILE + 1;
    for (int tile = 0; tile < tiles; tile++) {
        copies_done();
        __syncthreads();  // and nobody uses the other tiles any more
        if (tile + 1 < tiles) load_keys(tile + 1);
        const Tile &k_tile = keys[tile % 2], &v_tile = values[tile % 2];
#pragma unroll
        for (int some = 0; some < TILE; some += 16) {
            if (tile * TILE + some > (CAUSAL ? first + warp * 16 + 15 : length - 1)) break;
            float scores[2][4] = {}, share_grads[2][4] = {};
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                u32 k[4], v[4];
                int row = some + lane % 8 + lane / 16 * 8, column = d * 16 + lane / 8 % 2 * 8;
                matrices(k, shared_address(&k_tile[row][column]));
                matrices(v, shared_address(&v_tile[row][column]));
                multiply_add(scores[0], queries[d], k[0], k[1]);
                multiply_add(scores[1], queries[d], k[2], k[3]);
                multiply_add(share_grads[0], outs[d], v[0], v[1]);
                multiply_add(share_grads[1], outs[d], v[2], v[3]);
            }
#pragma unroll
            for (int n = 0; n < 2; n++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int key = tile * TILE + some + n * 8 + lane % 4 * 2 + j % 2, own = query + j / 2 * 8;
                    bool is_hidden = key >= length || own >= length || (CAUSAL && key > own);
                    float share = is_hidden ? 0.0f : power_of_two(fmaf(scores[n][j], scale, -log_sums[j / 2]));
                    scores[n][j] = share * (share_grads[n][j] - products[j / 2]);
                }
            }
            u32 packed[4] = {
                rounded(scores[0][0], scores[0][1]), rounded(scores[0][2], scores[0][3]),
                rounded(scores[1][0], scores[1][1]), rounded(scores[1][2], scores[1][3])};
#pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                u32 k[4];
                matrices_turned(k, shared_address(&k_tile[some + lane % 16][n * 8 + lane / 16 * 8]));
                multiply_add(sums[n], packed, k[0], k[1]);
                multiply_add(sums[n + 1], packed, k[2], k[3]);
            }
        }
    }
    int row = first + warp * 16;
    write_rows<WIDTH, D>(
        pass.dq + (u64)(start + row) * pass.stride + q_column, pass.stride, length - row, sums, grad_scale);
}

// Queries that a block meets at a time.
constexpr int FEW = 32;

// A block has 64 keys and values of one head, and meets the queries of all heads that share them.
template <int WIDTH, bool CAUSAL>
__device__ __forceinline__ void attend_backward_keys(
    const AttentionBackward& pass, float scale, float grad_scale) {
    constexpr int D = (WIDTH + 15) / 16 * 16, PITCH = D + 8;
    extern __shared__ Eight room[];
    typedef bf16 Tile[TILE][PITCH];
    typedef bf16 FewTile[FEW][PITCH];
    // Two tiles of queries and of their outputs' gradients: one is fetched while the other is used.
    Tile *keys = (Tile*)room, *values = keys + 1;
    FewTile *queries = (FewTile*)(keys + 2), *outs = queries + 2;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int kv_head = blockIdx.y, sequence = blockIdx.z, first = blockIdx.x * TILE;
    int length = pass.lengths[sequence], start = pass.starts[sequence];
    if (first >= length) return;
    int query_heads = gridDim.y * (int)pass.group;
    // Queries before the first key do not see it.
    int first_query = CAUSAL ? first / FEW * FEW : 0;
    int tiles = (length - first_query + FEW - 1) / FEW, steps = tiles * (int)pass.group;
    auto load_queries = [&](int step) {
        int head = kv_head * (int)pass.group + step / tiles, query = first_query + step % tiles * FEW;
        u64 row = start + query;
        load_head_rows<WIDTH, FEW, PITCH>(
            queries[step % 2], pass.q + row * pass.q_stride + head * WIDTH, pass.q_stride, length - query);
        load_head_rows<WIDTH, FEW, PITCH>(
            outs[step % 2], pass.out + row * pass.out_stride + head * WIDTH, pass.out_stride, length - query);
        copies_asked();
    };
    load_head_rows<WIDTH, TILE, PITCH>(
        *keys, pass.k + (u64)(start + first) * pass.k_stride + kv_head * WIDTH, pass.k_stride, length - first);
    load_head_rows<WIDTH, TILE, PITCH>(
        *values, pass.v + (u64)(start + first) * pass.v_stride + kv_head * WIDTH, pass.v_stride, length - first);
    load_queries(0);
    float k_sums[D / 8][4] = {}, v_sums[D / 8][4] = {};
    int own = first + warp * 16 + lane / 4;  // the lane's key, and the one eight after it
    for (int step = 0; step < steps; step++) {
        copies_done();
        __syncthreads();  // and nobody uses the other tiles any more
        if (step + 1 < steps) load_queries(step + 1);
        const FewTile &q_tile = queries[step % 2], &o_tile = outs[step % 2];
        int head = kv_head * (int)pass.group + step / tiles, query = first_query + step % tiles * FEW;
#pragma unroll
        for (int some = 0; some < FEW; some += 16) {
            if (query + some >= length || (CAUSAL && query + some + 15 < first + warp * 16)) continue;
            // Keys down, queries across.
            float scores[2][4] = {}, share_grads[2][4] = {};
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                u32 k[4], v[4], q[4], o[4];
                int column = d * 16 + lane / 16 * 8;
                matrices(k, shared_address(&(*keys)[warp * 16 + lane % 16][column]));
                matrices(v, shared_address(&(*values)[warp * 16 + lane % 16][column]));
                int row = some + lane % 8 + lane / 16 * 8;
                matrices(q, shared_address(&q_tile[row][d * 16 + lane / 8 % 2 * 8]));
                matrices(o, shared_address(&o_tile[row][d * 16 + lane / 8 % 2 * 8]));
                multiply_add(scores[0], k, q[0], q[1]);
                multiply_add(scores[1], k, q[2], q[3]);
                multiply_add(share_grads[0], v, o[0], o[1]);
                multiply_add(share_grads[1], v, o[2], o[3]);
            }
#pragma unroll
            for (int n = 0; n < 2; n++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int asking = query + some + n * 8 + lane % 4 * 2 + j % 2, key = own + j / 2 * 8;
                    bool is_hidden = key >= length || asking >= length || (CAUSAL && key > asking);
                    u64 at = (u64)(start + asking) * query_heads + head;
                    float share = is_hidden ? 0.0f : power_of_two(fmaf(scores[n][j], scale, -pass.log_sums[at]));
                    scores[n][j] = share;
                    share_grads[n][j] = is_hidden ? 0.0f : share * (share_grads[n][j] - pass.products[at]);
                }
            }
            u32 shares[4] = {
                rounded(scores[0][0], scores[0][1]), rounded(scores[0][2], scores[0][3]),
                rounded(scores[1][0], scores[1][1]), rounded(scores[1][2], scores[1][3])};
            u32 packed[4] = {
                rounded(share_grads[0][0], share_grads[0][1]), rounded(share_grads[0][2], share_grads[0][3]),
                rounded(share_grads[1][0], share_grads[1][1]), rounded(share_grads[1][2], share_grads[1][3])};
#pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                u32 q[4], o[4];
                matrices_turned(o, shared_address(&o_tile[some + lane % 16][n * 8 + lane / 16 * 8]));
                matrices_turned(q, shared_address(&q_tile[some + lane % 16][n * 8 + lane / 16 * 8]));
                multiply_add(v_sums[n], shares, o[0], o[1]);
                multiply_add(v_sums[n + 1], shares, o[2], o[3]);
                multiply_add(k_sums[n], packed, q[0], q[1]);
                multiply_add(k_sums[n + 1], packed, q[2], q[3]);
            }
        }
    }
    int row = first + warp * 16;
    u64 at = (u64)(start + row) * pass.stride + kv_head * WIDTH;
    write_rows<WIDTH, D>(pass.dk + at, pass.stride, length - row, k_sums, grad_scale);
    write_rows<WIDTH, D>(pass.dv + at, pass.stride, length - row, v_sums, 1.0f);
}

// `scale` as in `attention.cu`; `grad_scale` without the logarithm.
extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_text_backward_queries(
    AttentionBackward pass, float scale, float grad_scale) {
    attend_backward_queries<2 * TEXT_HALF, true>(pass, scale, grad_scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_text_backward_keys(
    AttentionBackward pass, float scale, float grad_scale) {
    attend_backward_keys<2 * TEXT_HALF, true>(pass, scale, grad_scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_vision_backward_queries(
    AttentionBackward pass, float scale, float grad_scale) {
    attend_backward_queries<2 * VISION_HALF, false>(pass, scale, grad_scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_vision_backward_keys(
    AttentionBackward pass, float scale, float grad_scale) {
    attend_backward_keys<2 * VISION_HALF, false>(pass, scale, grad_scale);
}
