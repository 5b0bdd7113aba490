// Attention of one query a sequence over keys and values that are kept. The keys of a sequence are split among blocks, so that one
// sequence keeps a whole GPU busy; `join_splits` makes one answer of what they found.

constexpr int DECODE_THREADS = 128;
// Numbers that a split leaves behind: its weighted values, its largest score, and the sum of its weights.
constexpr int SPLIT_NUMBERS = 2 * TEXT_HALF + 2;

struct Largest {
    static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};

struct Sum {
    static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};

// What `Join` makes of a number of every thread, for all of them. `room` may be used again once all threads have waited.
template <typename Join>
__device__ __forceinline__ float join_block(float x, float* room) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x = Join::of(x, __shfl_xor_sync(~0u, x, step));
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    x = room[0];
#pragma unroll
    for (int warp = 1; warp < DECODE_THREADS / 32; warp++) x = Join::of(x, room[warp]);
    return x;
}

// The query of `sequence` (a row of `q`) and `head` over keys `split * keys_per_split` on; its result goes to `parts`
// `[sequences, heads, splits, SPLIT_NUMBERS]`. Key `i` of a sequence is row `k_start + i` of `k` and `v`. `scale` is that of scores, times
// the logarithm that makes powers of e powers of two. A block per split, head and sequence.
extern "C" __global__ void __launch_bounds__(DECODE_THREADS) attend_cached(
    const bf16* q, int q_stride, const bf16* k, const bf16* v, int kv_stride, int group, const int* k_start, const int* k_len,
    int keys_per_split, float scale, float* parts) {
    constexpr int WIDTH = 2 * TEXT_HALF, EIGHTS = WIDTH / 8;
    static_assert(EIGHTS <= DECODE_THREADS, "a thread takes eight numbers of a value");
    // Keys whose values are added at the same time.
    constexpr int AT_ONCE = DECODE_THREADS / EIGHTS;
    __shared__ float query[WIDTH], weights[DECODE_THREADS], added[AT_ONCE][WIDTH];
    __shared__ float largest_of_warps[DECODE_THREADS / 32], sums_of_warps[DECODE_THREADS / 32];
    int split = blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;
    int from = split * keys_per_split, to = min(from + keys_per_split, k_len[sequence]);
    u64 first = (u64)k_start[sequence] * kv_stride + head / group * WIDTH;
    for (int i = threadIdx.x; i < WIDTH; i += DECODE_THREADS)
        query[i] = number(q[(u64)sequence * q_stride + head * WIDTH + i]) * scale;
    __syncthreads();

    int eight = threadIdx.x % EIGHTS, turn = threadIdx.x / EIGHTS;
    float most = LEAST, sum = 0.0f, out[8] = {}, numbers[8];
    for (int tile = from; tile < to; tile += DECODE_THREADS) {
        int key = tile + threadIdx.x;
        float score = LEAST;
        if (key < to) {
            const Eight* row = (const Eight*)(k + first + (u64)key * kv_stride);
            score = 0.0f;
#pragma unroll
            for (int i = 0; i < EIGHTS; i++) {
                unpack(row[i], numbers);
#pragma unroll
                for (int j = 0; j < 8; j++) score += query[i * 8 + j] * numbers[j];
            }
        }
        float largest = fmaxf(most, join_block<Largest>(score, largest_of_warps));
        float shrink = power_of_two(most - largest), weight = key < to ? power_of_two(score - largest) : 0.0f;
        most = largest;
        sum = sum * shrink + weight;
        weights[threadIdx.x] = weight;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 8; j++) out[j] *= shrink;
        int count = min(DECODE_THREADS, to - tile);
        if (turn < AT_ONCE) {
            for (int i = turn; i < count; i += AT_ONCE) {
                unpack(((const Eight*)(v + first + (u64)(tile + i) * kv_stride))[eight], numbers);
#pragma unroll
                for (int j = 0; j < 8; j++) out[j] += weights[i] * numbers[j];
            }
        }
        __syncthreads();  // nobody reads the weights any more
    }

    if (turn < AT_ONCE) {
#pragma unroll
        for (int j = 0; j < 8; j++) added[turn][eight * 8 + j] = out[j];
    }
    sum = join_block<Sum>(sum, sums_of_warps);  // and everything is in `added`
    float* part = parts + (((u64)sequence * gridDim.y + head) * gridDim.x + split) * SPLIT_NUMBERS;
    for (int i = threadIdx.x; i < WIDTH; i += DECODE_THREADS) {
        float total = 0.0f;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) total += added[j][i];
        part[i] = total;
    }
    if (threadIdx.x == 0) part[WIDTH] = most, part[WIDTH + 1] = sum;
}

// What a head sees of all splits; those without keys have no weight. A block per head and sequence.
extern "C" __global__ void join_splits(const float* parts, int splits, bf16* out, int out_stride) {
    constexpr int WIDTH = 2 * TEXT_HALF;
    int head = blockIdx.x, sequence = blockIdx.y;
    const float* own = parts + ((u64)sequence * gridDim.x + head) * splits * SPLIT_NUMBERS;
    float most = LEAST, sum = 0.0f;
    for (int s = 0; s < splits; s++) most = fmaxf(most, own[s * SPLIT_NUMBERS + WIDTH]);
    for (int s = 0; s < splits; s++)
        sum += own[s * SPLIT_NUMBERS + WIDTH + 1] * power_of_two(own[s * SPLIT_NUMBERS + WIDTH] - most);
    float share = 1.0f / sum;
    bf16* to = out + (u64)sequence * out_stride + head * WIDTH;
    for (int i = threadIdx.x * 2; i < WIDTH; i += blockDim.x * 2) {
        float first = 0.0f, second = 0.0f;
        for (int s = 0; s < splits; s++) {
            const float* part = own + s * SPLIT_NUMBERS;
            float weight = power_of_two(part[WIDTH] - most);
            first += part[i] * weight, second += part[i + 1] * weight;
        }
        *(u32*)(to + i) = rounded(first * share, second * share);
    }
}
