// The backward pass of a Qwen3-VL between its matrix products, the loss, and steps of the optimizer. Compiled together with
// `kernels.cu` and `attention.cu`, whose terms it uses.
//
// Gradients of activations are bf16, as the activations are; those of adapters, which are summed over batches, are floats.
// Every sum has one order: the same batch gives the same bits.

// The eight of a row that a lane has in a round, and what was there before it.
template <int WIDTH>
__device__ __forceinline__ void add_to_row(bf16* row, int round, const float more[8], bool adds) {
    Eight* to = (Eight*)row + Row<WIDTH>::place(round);
    float own[8] = {};
    if (adds) unpack(*to, own);
#pragma unroll
    for (int j = 0; j < 8; j++) own[j] += more[j];
    *to = pack(own);
}

// Of `y = x * factor(x) * scale`: row `i` of `dy` to row `rows[i]` (or `i`) of `dx`. A warp per row.
extern "C" __global__ void rms_norm_backward(
    const bf16* x, const float* scale, const bf16* dy, int dy_stride, bf16* dx, int adds, int count, float epsilon,
    const int* rows) {
    int from = row_of_warp();
    if (from >= count) return;
    u64 at = rows ? rows[from] : from;
    Row<TEXT_WIDTH> own, up;
    own.read(x + at * TEXT_WIDTH);
    up.read(dy + (u64)from * dy_stride);
    float factor = rsqrtf(own.sum([](float x) { return x * x; }) / TEXT_WIDTH + epsilon);
    float sum = 0.0f, numbers[8], grads[8], scales[8];
#pragma unroll
    for (int r = 0; r < own.EIGHTS; r++) {
        if (own.place(r) >= TEXT_WIDTH / 8) continue;
        unpack(own.packed[r], numbers);
        unpack(up.packed[r], grads);
        read_floats(scale + own.place(r) * 8, scales);
#pragma unroll
        for (int j = 0; j < 8; j++) sum += numbers[j] * grads[j] * scales[j];
    }
    float share = warp_sum(sum) * factor * factor / TEXT_WIDTH;
#pragma unroll
    for (int r = 0; r < own.EIGHTS; r++) {
        if (own.place(r) >= TEXT_WIDTH / 8) continue;
        unpack(own.packed[r], numbers);
        unpack(up.packed[r], grads);
        read_floats(scale + own.place(r) * 8, scales);
#pragma unroll
        for (int j = 0; j < 8; j++) numbers[j] = factor * (scales[j] * grads[j] - numbers[j] * share);
        add_to_row<TEXT_WIDTH>(dx + at * TEXT_WIDTH, r, numbers, adds);
    }
}

// Of `y = (x - mean) * factor * scale + shift`: adds to `dx`.
template <int WIDTH>
__device__ __forceinline__ void normalise_backward(
    const bf16* x, const float* scale, const bf16* dy, int dy_stride, bf16* dx, int adds, int count, float epsilon) {
    u64 at = row_of_warp();
    if (at >= count) return;
    Row<WIDTH> own, up;
    own.read(x + at * WIDTH);
    up.read(dy + at * dy_stride);
    float mean = own.sum([](float x) { return x; }) / WIDTH;
    float factor = rsqrtf(own.sum([=](float x) { return (x - mean) * (x - mean); }) / WIDTH + epsilon);
    float sum = 0.0f, products = 0.0f, numbers[8], grads[8], scales[8];
#pragma unroll
    for (int r = 0; r < own.EIGHTS; r++) {
        if (own.place(r) >= WIDTH / 8) continue;
        unpack(own.packed[r], numbers);
        unpack(up.packed[r], grads);
        read_floats(scale + own.place(r) * 8, scales);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float grad = grads[j] * scales[j];
            sum += grad, products += grad * (numbers[j] - mean);
        }
    }
    float mean_grad = warp_sum(sum) / WIDTH, share = warp_sum(products) * factor * factor / WIDTH;
#pragma unroll
    for (int r = 0; r < own.EIGHTS; r++) {
        if (own.place(r) >= WIDTH / 8) continue;
        unpack(own.packed[r], numbers);
        unpack(up.packed[r], grads);
        read_floats(scale + own.place(r) * 8, scales);
#pragma unroll
        for (int j = 0; j < 8; j++)
            numbers[j] = factor * (scales[j] * grads[j] - mean_grad - (numbers[j] - mean) * share);
        add_to_row<WIDTH>(dx + at * WIDTH, r, numbers, adds);
    }
}

extern "C" __global__ void layer_norm_backward(
    const bf16* x, const float* scale, const bf16* dy, int dy_stride, bf16* dx, int adds, int count, float epsilon) {
    normalise_backward<VISION_WIDTH>(x, scale, dy, dy_stride, dx, adds, count, epsilon);
}

extern "C" __global__ void layer_norm_merged_backward(
    const bf16* x, const float* scale, const bf16* dy, int dy_stride, bf16* dx, int adds, int count, float epsilon) {
    normalise_backward<VISION_MERGED>(x, scale, dy, dy_stride, dx, adds, count, epsilon);
}

// Of `y = silu(gate) * up`: `x` has rows `[gate, up]` and gets their gradients; `dy` has the gradient of `y` and gets `y`.
// A block per row.
extern "C" __global__ void swiglu_backward(bf16* x, bf16* dy, int dy_stride, int inner) {
    Eight* gates = (Eight*)(x + (u64)blockIdx.x * 2 * inner);
    Eight* ups = gates + inner / 8;
    Eight* out = (Eight*)(dy + (u64)blockIdx.x * dy_stride);
    float gate[8], up[8], grad[8];
    for (int i = threadIdx.x; i < inner / 8; i += blockDim.x) {
        unpack(gates[i], gate);
        unpack(ups[i], up);
        unpack(out[i], grad);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float share = 1.0f / (1.0f + __expf(-gate[j])), silu = gate[j] * share;
            float by_gate = grad[j] * up[j] * share * (1.0f + gate[j] * (1.0f - share)), by_up = grad[j] * silu;
            grad[j] = silu * up[j], gate[j] = by_gate, up[j] = by_up;
        }
        gates[i] = pack(gate);
        ups[i] = pack(up);
        out[i] = pack(grad);
    }
}

// GELU by the hyperbolic tangent, and its derivative.
struct TanhGelu {
    static __device__ __forceinline__ float2 of(float x) {
        const float factor = 0.7978845608f, cubic = 0.044715f;
        float t = tanhf(factor * (x + cubic * x * x * x));
        float grad = 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * factor * (1.0f + 3.0f * cubic * x * x);
        return make_float2(0.5f * x * (1.0f + t), grad);
    }
};

// GELU by the error function, and its derivative.
struct ErfGelu {
    static __device__ __forceinline__ float2 of(float x) {
        float share = 0.5f * (1.0f + erff(x * 0.70710678f));
        return make_float2(x * share, share + x * 0.39894228f * __expf(-0.5f * x * x));
    }
};

// `y = gelu(x)`. A block per row.
template <typename Gelu>
__device__ __forceinline__ void gelu_rows(const bf16* x, bf16* y, int y_stride, int width) {
    const Eight* in = (const Eight*)(x + (u64)blockIdx.x * width);
    Eight* out = (Eight*)(y + (u64)blockIdx.x * y_stride);
    float numbers[8];
    for (int i = threadIdx.x; i < width / 8; i += blockDim.x) {
        unpack(in[i], numbers);
#pragma unroll
        for (int j = 0; j < 8; j++) numbers[j] = Gelu::of(numbers[j]).x;
        out[i] = pack(numbers);
    }
}

// Of `y = gelu(x)`: `x` gets its gradient; `dy` has the gradient of `y` and gets `y`. A block per row.
template <typename Gelu>
__device__ __forceinline__ void gelu_rows_backward(bf16* x, bf16* dy, int dy_stride, int width) {
    Eight* in = (Eight*)(x + (u64)blockIdx.x * width);
    Eight* out = (Eight*)(dy + (u64)blockIdx.x * dy_stride);
    float numbers[8], grads[8];
    for (int i = threadIdx.x; i < width / 8; i += blockDim.x) {
        unpack(in[i], numbers);
        unpack(out[i], grads);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float2 found = Gelu::of(numbers[j]);
            numbers[j] = grads[j] * found.y, grads[j] = found.x;
        }
        in[i] = pack(numbers);
        out[i] = pack(grads);
    }
}

extern "C" __global__ void gelu_tanh(const bf16* x, bf16* y, int y_stride, int width) {
    gelu_rows<TanhGelu>(x, y, y_stride, width);
}

extern "C" __global__ void gelu_erf(const bf16* x, bf16* y, int y_stride, int width) {
    gelu_rows<ErfGelu>(x, y, y_stride, width);
}

extern "C" __global__ void gelu_tanh_backward(bf16* x, bf16* dy, int dy_stride, int width) {
    gelu_rows_backward<TanhGelu>(x, dy, dy_stride, width);
}

extern "C" __global__ void gelu_erf_backward(bf16* x, bf16* dy, int dy_stride, int width) {
    gelu_rows_backward<ErfGelu>(x, dy, dy_stride, width);
}

// Of `turn_head`: `grad` has the gradient of a turned head and gets that of `head`.
template <int HALF, bool NORM>
__device__ __forceinline__ void turn_head_backward(
    const bf16* head, bf16* grad, const float2* turns, const float* scale, float epsilon) {
    constexpr int ROUNDS = (HALF + 63) / 64;
    int lane = threadIdx.x % 32;
    float own[ROUNDS][2][2], up[ROUNDS][2][2], squares = 0.0f, products = 0.0f;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int i = r * 64 + lane * 2;
        bool is_there = i < HALF;
        u32 a = is_there ? *(const u32*)(grad + i) : 0, b = is_there ? *(const u32*)(grad + HALF + i) : 0;
        u32 c = NORM && is_there ? *(const u32*)(head + i) : 0, d = NORM && is_there ? *(const u32*)(head + HALF + i) : 0;
        own[r][0][0] = low(c), own[r][0][1] = high(c), own[r][1][0] = low(d), own[r][1][1] = high(d);
        float first[2] = {low(a), high(a)}, second[2] = {low(b), high(b)};
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float2 turn = is_there ? turns[i + j] : make_float2(0.0f, 0.0f);
            up[r][0][j] = first[j] * turn.x + second[j] * turn.y;
            up[r][1][j] = second[j] * turn.x - first[j] * turn.y;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                if (NORM) {
                    up[r][h][j] *= is_there ? scale[h * HALF + i + j] : 0.0f;
                    squares += own[r][h][j] * own[r][h][j], products += own[r][h][j] * up[r][h][j];
                }
            }
        }
    }
    float factor = NORM ? rsqrtf(warp_sum(squares) / (2 * HALF) + epsilon) : 1.0f;
    float share = NORM ? warp_sum(products) * factor * factor / (2 * HALF) : 0.0f;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        int i = r * 64 + lane * 2;
        if (i >= HALF) break;
#pragma unroll
        for (int h = 0; h < 2; h++)
            *(u32*)(grad + h * HALF + i) = rounded(
                factor * (up[r][h][0] - own[r][h][0] * share), factor * (up[r][h][1] - own[r][h][1] * share));
    }
}

// The gradients of turned heads to those of the heads before `turn_text`, in place. A warp per head.
extern "C" __global__ void turn_text_backward(
    const bf16* x, bf16* grads, int stride, int asking, int heads, const float* q_scale, const float* k_scale,
    float epsilon, const float2* turns) {
    int head = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
    if (head >= heads) return;
    u64 at = (u64)blockIdx.x * stride + head * 2 * TEXT_HALF;
    turn_head_backward<TEXT_HALF, true>(
        x + at, grads + at, turns + (u64)blockIdx.x * TEXT_HALF, head < asking ? q_scale : k_scale, epsilon);
}

// The same of `turn_vision`.
extern "C" __global__ void turn_vision_backward(bf16* grads, int stride, int heads, const float2* turns, int period) {
    int head = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
    if (head >= heads) return;
    bf16* at = grads + (u64)blockIdx.x * stride + head * 2 * VISION_HALF;
    turn_head_backward<VISION_HALF, false>(
        nullptr, at, turns + (u64)(blockIdx.x % period) * VISION_HALF, nullptr, 0.0f);
}

// A value of all threads of a block, the same whatever their order.
__device__ __forceinline__ float2 block_max_and_sum(float most, float sum) {
    __shared__ float2 parts[32];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(~0u, most, step), others = __shfl_xor_sync(~0u, sum, step);
        float largest = fmaxf(most, other);
        sum = sum * __expf(most - largest) + others * __expf(other - largest);
        most = largest;
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = make_float2(most, sum);
    __syncthreads();
    most = parts[0].x, sum = parts[0].y;
    for (int i = 1; i < blockDim.x / 32; i++) {
        float largest = fmaxf(most, parts[i].x);
        sum = sum * __expf(most - largest) + parts[i].y * __expf(parts[i].x - largest);
        most = largest;
    }
    return make_float2(most, sum);
}

// Cross-entropy of rows of logits: the loss of each, and `factor` times its gradient. A block per row.
extern "C" __global__ void cross_entropy(
    const float* logits, const int* targets, float* losses, bf16* grads, int stride, int vocab, float factor) {
    const float* row = logits + (u64)blockIdx.x * stride;
    bf16* out = grads + (u64)blockIdx.x * stride;
    float most = -3.0e38f, sum = 0.0f;
    for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
        float logit = row[i];
        if (!(logit <= most)) {
            sum *= __expf(most - logit);
            most = logit;
        }
        sum += __expf(logit - most);
    }
    float2 found = block_max_and_sum(most, sum);
    int target = targets[blockIdx.x];
    if (threadIdx.x == 0) losses[blockIdx.x] = found.x + logf(found.y) - row[target];
    float share = 1.0f / found.y;
    for (int i = threadIdx.x * 2; i < stride; i += blockDim.x * 2) {
        float grad[2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            bool is_there = i + j < vocab;
            float probability = is_there ? __expf(row[i + j] - found.x) * share : 0.0f;
            grad[j] = (probability - (i + j == target ? 1.0f : 0.0f)) * factor;
        }
        *(u32*)(out + i) = rounded(grad[0], grad[1]);
    }
}

// The sum of squares of each block's numbers.
extern "C" __global__ void sum_of_squares(const float* x, u64 count, double* sums) {
    __shared__ double parts[32];
    double sum = 0.0;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) sum += (double)x[i] * x[i];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < blockDim.x / 32; i++) sum += parts[i];
    sums[blockIdx.x] = sum;
}

// A step of AdamW along `grads * grad_factor`. Factors as `kernels/adam.rs` has them.
extern "C" __global__ void adamw(
    float* values, const float* grads, float* means, float* squares, u64 count, float grad_factor, float new_mean,
    float old_square, float new_square, float root_factor, float epsilon, float rate, float keep) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float grad = grads[i] * grad_factor;
    float mean = means[i] + new_mean * (grad - means[i]);
    float square = old_square * squares[i] + new_square * grad * grad;
    means[i] = mean, squares[i] = square;
    values[i] = values[i] * keep - rate * mean / (sqrtf(square) * root_factor + epsilon);
}

// Floats to bf16, `factor` times as large: rows of `width` numbers, a multiple of eight, `stride` apart in `to`. A thread for
// eight.
extern "C" __global__ void round_rows(const float* from, bf16* to, u64 stride, int width, u64 count, float factor) {
    u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i >= count) return;
    float numbers[8];
    read_floats(from + i, numbers);
#pragma unroll
    for (int j = 0; j < 8; j++) numbers[j] *= factor;
    *(Eight*)(to + i / width * stride + i % width) = pack(numbers);
}

// What `round_rows` takes, for one of many; every field has eight bytes.
struct RoundedRows {
    const float* from;
    bf16* to;
    u64 stride, width, count;
    double factor;
};

// The same for many at once: a row of blocks for each.
extern "C" __global__ void round_all_rows(const RoundedRows* all) {
    RoundedRows rows = all[blockIdx.y];
    u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i >= rows.count) return;
    float numbers[8], factor = (float)rows.factor;
    read_floats(rows.from + i, numbers);
#pragma unroll
    for (int j = 0; j < 8; j++) numbers[j] *= factor;
    *(Eight*)(rows.to + i / rows.width * rows.stride + i % rows.width) = pack(numbers);
}

// Rows `from[i]` of `x` to rows `to[i]` of `y`. A block per row.
extern "C" __global__ void move_rows(const bf16* x, const int* from, bf16* y, const int* to, int width) {
    const Eight* in = (const Eight*)(x + (u64)from[blockIdx.x] * width);
    Eight* out = (Eight*)(y + (u64)to[blockIdx.x] * width);
    for (int i = threadIdx.x; i < width / 8; i += blockDim.x) out[i] = in[i];
}

// Zeros. A thread for eight.
extern "C" __global__ void clear(bf16* x, u64 count) {
    u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i < count) *(Eight*)(x + i) = Eight{};
}
