// What training adds to the convolutions: batch normalisation's sums, gathered where a convolution's outputs or the gradient of its
// inputs are written, and the passes between convolutions. Sums have one order, whatever the tiles: 64 rows at a time, then those.

// Eight neighbours as they lie in memory.
#if defined(NUMBER_F32)
struct alignas(16) Eight {
    float x[8];
};
__device__ __forceinline__ void unpack(const Eight& from, float to[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++) to[i] = from.x[i];
}
__device__ __forceinline__ Eight pack(const float x[8]) {
    Eight packed;
#pragma unroll
    for (int i = 0; i < 8; i++) packed.x[i] = x[i];
    return packed;
}
__device__ __forceinline__ Eight load(const number* from) {
    Eight packed;
    read_floats(from, packed.x);
    return packed;
}
__device__ __forceinline__ void store(number* to, const Eight& packed) { write_floats(to, packed.x); }
#else
typedef Quad Eight;
__device__ __forceinline__ void unpack(const Eight& from, float to[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) to[2 * i] = low(from.word[i]), to[2 * i + 1] = high(from.word[i]);
}
__device__ __forceinline__ Eight pack(const float x[8]) {
    Eight packed;
#pragma unroll
    for (int i = 0; i < 4; i++) packed.word[i] = rounded(x[2 * i], x[2 * i + 1]);
    return packed;
}
__device__ __forceinline__ Eight load(const number* from) { return *(const Eight*)from; }
__device__ __forceinline__ void store(number* to, const Eight& packed) { *(Eight*)to = packed; }
#endif

// What normalisation makes of a number. Written once, so that the backward pass sees the same side of zero.
__device__ __forceinline__ float normed(float x, float mean, float scale, float shift) { return fmaf(x - mean, scale, shift); }

// Rows whose sums are one entry, and how many threads share them.
constexpr int SUM_ROWS = 64, SUM_LANES = 16;

// Where a row of outputs begins, and where the residual that is added to it; -1: nothing is.
struct Places {
    long long out, residual;
};

__device__ __forceinline__ Places places_of(const Conv& c, int pixel) {
    long long same = (long long)pixel * c.outputs;
    bool decodes = c.out_pixel != 0 || c.residual_kind == EVEN_PIXELS;
    Places places{same, same};
    if (decodes) {
        int image = pixel / (int)c.out_pixels, rest = pixel - image * (int)c.out_pixels;
        int y = rest / (int)c.out_width, x = rest - y * (int)c.out_width;
        if (c.out_pixel) places.out = c.out_first + image * c.out_image + y * c.out_row + x * c.out_pixel;
        if (c.residual_kind == EVEN_PIXELS)
            places.residual =
                (y | x) & 1 ? -1 : (image * c.residual_pixels + y / 2 * c.residual_width + x / 2) * c.outputs;
    }
    if (c.residual_kind == SAME_PLACE) places.residual = places.out;
    if (!c.residual) places.residual = -1;
    return places;
}

// A tile of sums in shared memory: the residual is added; of a gradient, what ReLU let through is kept; and then written. With it
// goes, for each channel, the sum over 64 rows, and the sum of squares, or of products with what normalisation was given.
template <int BM, int BN, int THREADS>
__device__ __forceinline__ void finish(const Conv& c, int tile_m, int tile_n, float* room) {
    constexpr int PITCH = BN + 4, EIGHTS = BN / 8, UNITS = BM / SUM_ROWS * SUM_LANES * EIGHTS, ROUNDS = SUM_ROWS / SUM_LANES;
    for (int unit = threadIdx.x; unit < UNITS; unit += THREADS) {
        int eight = unit % EIGHTS, lane = unit / EIGHTS % SUM_LANES, group = unit / EIGHTS / SUM_LANES;
        int first = group * SUM_ROWS + lane, column = tile_n * BN + eight * 8;
        Eight residual[ROUNDS], before[ROUNDS], after[ROUNDS];
        long long out[ROUNDS];
        bool adds[ROUNDS];
#pragma unroll
        for (int i = 0; i < ROUNDS; i++) {  // all on their way before the first is needed
            int pixel = tile_m * BM + first + i * SUM_LANES;
            out[i] = -1, adds[i] = false;
            if (pixel >= (int)c.rows) continue;
            Places places = places_of(c, pixel);
            out[i] = places.out + column;
            adds[i] = places.residual >= 0;
            if (adds[i]) residual[i] = load(c.residual + places.residual + column);
            if (c.before) before[i] = load(c.before + out[i]);
            if (c.after) after[i] = load(c.after + out[i]);
        }
        float mean[8], scale[8], shift[8], sums[8] = {}, products[8] = {};
        if (c.before) read_floats(c.mean + column, mean);
        if (c.before && !c.after) read_floats(c.scale + column, scale), read_floats(c.shift + column, shift);
#pragma unroll
        for (int i = 0; i < ROUNDS; i++) {
            if (out[i] < 0) continue;
            float x[8], other[8];
            read_floats(room + (first + i * SUM_LANES) * PITCH + eight * 8, x);
            if (adds[i]) {
                unpack(residual[i], other);
#pragma unroll
                for (int k = 0; k < 8; k++) x[k] += other[k];
            }
            if (c.before) {
                float given[8];
                unpack(before[i], given);
                if (c.after) unpack(after[i], other);
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    float let_through = c.after ? other[k] : normed(given[k], mean[k], scale[k], shift[k]);
                    if (!(let_through > 0.0f)) x[k] = 0.0f;
                }
                Eight packed = pack(x);
                store(c.y + out[i], packed);
                unpack(packed, x);
#pragma unroll
                for (int k = 0; k < 8; k++) sums[k] += x[k], products[k] += x[k] * (given[k] - mean[k]);
            } else {
                Eight packed = pack(x);
                store(c.y + out[i], packed);
                unpack(packed, x);
#pragma unroll
                for (int k = 0; k < 8; k++) sums[k] += x[k], products[k] += x[k] * x[k];
            }
        }
        // In the place of what this thread alone has read.
        write_floats(room + first * PITCH + eight * 8, sums);
        write_floats(room + (first + SUM_LANES) * PITCH + eight * 8, products);
    }
    if (!c.sums) return;
    __syncthreads();
    for (int i = threadIdx.x; i < BM / SUM_ROWS * BN; i += THREADS) {
        int group = i / BN, column = i % BN;
        if (tile_m * BM + group * SUM_ROWS >= (int)c.rows) continue;
        float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int lane = 0; lane < SUM_LANES; lane++) {
            const float* from = room + (group * SUM_ROWS + lane) * PITCH + column;
            sum.x += from[0], sum.y += from[SUM_LANES * PITCH];
        }
        long long row = c.first_sums + tile_m * (BM / SUM_ROWS) + group;
        c.sums[row * c.outputs + tile_n * BN + column] = sum;
    }
}

// What is added to a gradient, by what is known of the loss: nothing if it is not a number; the first of a step takes the place of
// what was there.
enum Goodness { BAD = 0, ADDS = 1, IS_FIRST = 2 };

__device__ __forceinline__ void add_gradient(float* to, float x, int good) { *to = good == IS_FIRST ? x : *to + x; }

// ReLU. What is not a number stays one.
__device__ __forceinline__ float rectified(float x) { return x < 0.0f ? 0.0f : x; }

// Adds up the rows of sums of 32 channels. Blocks of a column of the grid share the rows; the last to arrive has all of them, and
// what it returns is true for its first warp alone.
constexpr int SUM_WARPS = 8;

__device__ __forceinline__ bool all_sums(const float2* sums, int rows, int channels, double2* partial, int* arrived, double2* all) {
    __shared__ double2 room[SUM_WARPS][32];
    __shared__ bool is_last;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, channel = blockIdx.x * 32 + lane;
    int from = (int)((long long)rows * blockIdx.y / gridDim.y), to = (int)((long long)rows * (blockIdx.y + 1) / gridDim.y);
    double x = 0.0, y = 0.0;
#pragma unroll 8
    for (int row = from + warp; row < to; row += SUM_WARPS) {
        float2 sum = sums[(long long)row * channels + channel];
        x += (double)sum.x, y += (double)sum.y;
    }
    auto of_warps = [&]() {
        double2 sum = make_double2(0.0, 0.0);
#pragma unroll
        for (int i = 0; i < SUM_WARPS; i++) sum.x += room[i][lane].x, sum.y += room[i][lane].y;
        return sum;
    };
    room[warp][lane] = make_double2(x, y);
    __syncthreads();
    if (gridDim.y > 1) {
        if (warp == 0) {
            partial[blockIdx.y * (long long)channels + channel] = of_warps();
            __threadfence();
            __syncwarp();
            if (lane == 0) is_last = atomicAdd(arrived + blockIdx.x, 1) == (int)gridDim.y - 1;
        }
        __syncthreads();
        if (!is_last) return false;
        __threadfence();
        if (threadIdx.x == 0) arrived[blockIdx.x] = 0;
        x = y = 0.0;
#pragma unroll 8
        for (int i = warp; i < (int)gridDim.y; i += SUM_WARPS) {
            double2 part = __ldcg(partial + i * (long long)channels + channel);
            x += part.x, y += part.y;
        }
        room[warp][lane] = make_double2(x, y);
        __syncthreads();
    }
    if (warp == 0) *all = of_warps();
    return warp == 0;
}

// Mean, variance and factor of each channel from the sums of its numbers and of their squares.
extern "C" __global__ void batch_statistics(const float2* sums, int rows, int channels, double2* partial, int* arrived, float count,
                                            const float* weight, float epsilon, float* mean, float* variance, float* root,
                                            float* scale) {
    double2 all;
    if (!all_sums(sums, rows, channels, partial, arrived, &all)) return;
    int channel = blockIdx.x * 32 + threadIdx.x;
    double middle = all.x / (double)count, spread = fmax(all.y / (double)count - middle * middle, 0.0);
    float one_over = (float)(1.0 / sqrt(spread + (double)epsilon));
    // What is kept is the estimate of the variance of all images, not of these.
    mean[channel] = (float)middle, variance[channel] = (float)(spread * (double)count / fmax((double)count - 1.0, 1.0));
    root[channel] = one_over, scale[channel] = one_over * weight[channel];
}

// The same from the running statistics.
extern "C" __global__ void fixed_statistics(const float* running_mean, const float* running_variance, int channels,
                                            const float* weight, float epsilon, float* mean, float* root, float* scale) {
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels) return;
    float one_over = (float)(1.0 / sqrt((double)running_variance[channel] + (double)epsilon));
    mean[channel] = running_mean[channel], root[channel] = one_over, scale[channel] = one_over * weight[channel];
}

// What becomes of running statistics: of all layers at once, after a loss that is a number.
extern "C" __global__ void running_statistics(const float* mean, const float* variance, float* running_mean, float* running_variance,
                                              int channels, float momentum, const int* is_good) {
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels || !*is_good) return;
    running_mean[channel] = running_mean[channel] * (1.0f - momentum) + mean[channel] * momentum;
    running_variance[channel] = running_variance[channel] * (1.0f - momentum) + variance[channel] * momentum;
}

// From the sums of a gradient, and of its products with what normalisation was given: the gradients of weight and bias, and what the
// gradient of inputs consists of, `of_gradient * dz + of_input * (x - mean) + constant`.
extern "C" __global__ void gradient_statistics(const float2* sums, int rows, int channels, double2* partial, int* arrived,
                                               float count, const float* root, const float* scale, float* of_input,
                                               float* constant, float* weight_gradient, float* bias_gradient,
                                               const int* is_good) {
    double2 all;
    if (!all_sums(sums, rows, channels, partial, arrived, &all)) return;
    int channel = blockIdx.x * 32 + threadIdx.x;
    double one_over = (double)root[channel], factor = (double)scale[channel];
    of_input[channel] = (float)(-factor * one_over * one_over * all.y / (double)count);
    constant[channel] = (float)(-factor * all.x / (double)count);
    if (*is_good == BAD) return;
    add_gradient(weight_gradient + channel, (float)(all.y * one_over), *is_good);
    add_gradient(bias_gradient + channel, (float)all.x, *is_good);
}

// Threads of a block, and eights of numbers that each of them has: so far apart that they are of the same channels, whose number divides
// the distance.
constexpr int PASS_THREADS = 256, PASS_ROUNDS = 4, PASS_STEP = PASS_THREADS * 8;

// Normalisation, residual and ReLU. The residual may itself be something to normalise.
extern "C" __global__ void __launch_bounds__(PASS_THREADS)
    norm_act(const number* x, const float* mean, const float* scale, const float* shift, const number* residual,
             const float* other_mean, const float* other_scale, const float* other_shift, number* y, long long count, int channels,
             int relu, int rounds) {
    long long first = blockIdx.x * (long long)(PASS_STEP * rounds) + threadIdx.x * 8;
    int channel = (int)(first % channels);
    Eight given[PASS_ROUNDS], others[PASS_ROUNDS];
#pragma unroll
    for (int r = 0; r < PASS_ROUNDS; r++) {
        long long place = first + r * PASS_STEP;
        if (r >= rounds || place >= count) continue;
        given[r] = load(x + place);
        if (residual) others[r] = load(residual + place);
    }
    float means[8], scales[8], shifts[8], other_means[8], other_scales[8], other_shifts[8];
    read_floats(mean + channel, means);
    read_floats(scale + channel, scales);
    read_floats(shift + channel, shifts);
    if (other_mean) {
        read_floats(other_mean + channel, other_means);
        read_floats(other_scale + channel, other_scales);
        read_floats(other_shift + channel, other_shifts);
    }
#pragma unroll
    for (int r = 0; r < PASS_ROUNDS; r++) {
        long long place = first + r * PASS_STEP;
        if (r >= rounds || place >= count) continue;
        float numbers[8], other[8];
        unpack(given[r], numbers);
        if (residual) unpack(others[r], other);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float out = normed(numbers[i], means[i], scales[i], shifts[i]);
            if (other_mean) other[i] = normed(other[i], other_means[i], other_scales[i], other_shifts[i]);
            if (residual) out += other[i];
            numbers[i] = relu ? rectified(out) : out;
        }
        write_8(y + place, numbers);
    }
}

// The gradient of what normalisation was given.
extern "C" __global__ void __launch_bounds__(PASS_THREADS)
    norm_gradient(const number* gradient, const number* x, const float* mean, const float* scale, const float* of_input,
                  const float* constant, number* y, long long count, int channels, int rounds) {
    long long first = blockIdx.x * (long long)(PASS_STEP * rounds) + threadIdx.x * 8;
    int channel = (int)(first % channels);
    Eight gradients[PASS_ROUNDS], given[PASS_ROUNDS];
#pragma unroll
    for (int r = 0; r < PASS_ROUNDS; r++) {
        long long place = first + r * PASS_STEP;
        if (r >= rounds || place >= count) continue;
        gradients[r] = load(gradient + place);
        given[r] = load(x + place);
    }
    float means[8], scales[8], inputs[8], constants[8];
    read_floats(mean + channel, means);
    read_floats(scale + channel, scales);
    read_floats(of_input + channel, inputs);
    read_floats(constant + channel, constants);
#pragma unroll
    for (int r = 0; r < PASS_ROUNDS; r++) {
        long long place = first + r * PASS_STEP;
        if (r >= rounds || place >= count) continue;
        float from[8], numbers[8];
        unpack(gradients[r], from);
        unpack(given[r], numbers);
#pragma unroll
        for (int i = 0; i < 8; i++)
            numbers[i] = fmaf(scales[i], from[i], fmaf(inputs[i], numbers[i] - means[i], constants[i]));
        write_8(y + place, numbers);
    }
}

// Sums of a gradient and of its products, for 64 rows in a block; where `after` is given, of what ReLU let through, which is also
// what is left of the gradient.
extern "C" __global__ void gradient_sums(number* gradient, const number* x, const number* after, const float* mean, float2* sums,
                                         int rows, int channels) {
    extern __shared__ float2 of_lanes[];  // lanes x channels of this block
    int eights = blockDim.x / SUM_LANES, eight = threadIdx.x % eights, lane = threadIdx.x / eights;
    int column = (blockIdx.y * eights + eight) * 8;
    float means[8], all[8] = {}, products[8] = {};
    read_floats(mean + column, means);
#pragma unroll
    for (int i = 0; i < SUM_ROWS / SUM_LANES; i++) {
        int row = blockIdx.x * SUM_ROWS + i * SUM_LANES + lane;
        if (row >= rows) continue;
        long long place = (long long)row * channels + column;
        float from[8], given[8], other[8];
        read_8(gradient + place, from);
        read_8(x + place, given);
        if (after) {
            read_8(after + place, other);
#pragma unroll
            for (int k = 0; k < 8; k++) from[k] = other[k] > 0.0f ? from[k] : 0.0f;
            write_8(gradient + place, from);
        }
#pragma unroll
        for (int k = 0; k < 8; k++) all[k] += from[k], products[k] += from[k] * (given[k] - means[k]);
    }
#pragma unroll
    for (int k = 0; k < 8; k++) of_lanes[(lane * eights + eight) * 8 + k] = make_float2(all[k], products[k]);
    __syncthreads();
    for (int i = threadIdx.x; i < eights * 8; i += blockDim.x) {
        float2 sum = make_float2(0.0f, 0.0f);
        for (int other = 0; other < SUM_LANES; other++) {
            float2 one = of_lanes[other * eights * 8 + i];
            sum.x += one.x, sum.y += one.y;
        }
        sums[(long long)blockIdx.x * channels + blockIdx.y * eights * 8 + i] = sum;
    }
}

// Eight places of a window, in a word each of four bits.
__device__ __forceinline__ void put_window(u32* to, const int which[8]) {
    u32 packed = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) packed |= (u32)which[i] << 4 * i;
    *to = packed;
}

// Normalisation, ReLU and the 3x3 pool of stride 2: the largest of each window, what normalisation was given there, and which it was.
// Without a normalisation, the pool alone.
extern "C" __global__ void pool_training(const number* x, const float* mean, const float* scale, const float* shift, number* y,
                                         number* chosen, u32* windows, int count, int height, int width, int out_height,
                                         int out_width, int channels) {
    int eights = channels / 8;
    long long place = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (place >= (long long)count * out_height * out_width * eights) return;
    int eight = (int)(place % eights);
    long long pixel = place / eights;
    int out_x = (int)(pixel % out_width), out_y = (int)(pixel / out_width % out_height);
    const number* image = x + pixel / (out_width * out_height) * ((long long)height * width * channels) + eight * 8;
    float means[8], scales[8], shifts[8], most[8], given[8];
    int which[8];
    if (mean) {
        read_floats(mean + eight * 8, means);
        read_floats(scale + eight * 8, scales);
        read_floats(shift + eight * 8, shifts);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) most[i] = __int_as_float(0xff800000), given[i] = 0.0f, which[i] = 0;
#pragma unroll
    for (int dy = 0; dy < 3; dy++)
#pragma unroll
        for (int dx = 0; dx < 3; dx++) {
            int row = 2 * out_y + dy - 1, column = 2 * out_x + dx - 1;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            float other[8];
            read_8(image + (long long)(row * width + column) * channels, other);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float z = mean ? normed(other[i], means[i], scales[i], shifts[i]) : other[i];
                if (!(z <= most[i])) most[i] = z, given[i] = other[i], which[i] = dy * 3 + dx;
            }
        }
    put_window(windows + place, which);
    if (mean) {
        write_8(chosen + place * 8, given);
#pragma unroll
        for (int i = 0; i < 8; i++) most[i] = rectified(most[i]);
    }
    write_8(y + place * 8, most);
}

// The gradient of what the pool was given, from that of what it chose, and on through normalisation if there is one. A thread has 2x2
// pixels of eight channels, which four windows see: rows and columns of odd numbers are in two of them.
extern "C" __global__ void pool_gradient(const number* gradient, const u32* windows, const number* x, const float* mean,
                                         const float* scale, const float* of_input, const float* constant, number* y, int count,
                                         int height, int width, int out_height, int out_width, int channels) {
    int eights = channels / 8;
    long long place = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (place >= (long long)count * out_height * out_width * eights) return;
    int eight = (int)(place % eights);
    long long pixel = place / eights;
    int out_x = (int)(pixel % out_width), out_y = (int)(pixel / out_width % out_height);
    long long image = pixel / ((long long)out_width * out_height);
    long long first = ((image * height + 2 * out_y) * width + 2 * out_x) * channels + eight * 8;
    bool is_row[2] = {true, 2 * out_y + 1 < height}, is_column[2] = {true, 2 * out_x + 1 < width};
    Eight given[2][2], gradients[2][2];
    u32 chosen[2][2];
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            if (mean && is_row[r] && is_column[c]) given[r][c] = load(x + first + ((long long)r * width + c) * channels);
            bool is_window = out_y + r < out_height && out_x + c < out_width;
            long long from = place + ((long long)r * out_width + c) * eights;
            chosen[r][c] = is_window ? windows[from] : ~0u;
            if (is_window) gradients[r][c] = load(gradient + from * 8);
        }
    float means[8], scales[8], inputs[8], constants[8];
    if (mean) {
        read_floats(mean + eight * 8, means);
        read_floats(scale + eight * 8, scales);
        read_floats(of_input + eight * 8, inputs);
        read_floats(constant + eight * 8, constants);
    }
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            if (!is_row[r] || !is_column[c]) continue;
            float sum[8] = {}, other[8];
#pragma unroll
            for (int a = 0; a <= r; a++)
#pragma unroll
                for (int b = 0; b <= c; b++) {
                    int dy = r == 0 ? 1 : a == 0 ? 2 : 0, dx = c == 0 ? 1 : b == 0 ? 2 : 0;
                    if (chosen[a][b] == ~0u) continue;
                    unpack(gradients[a][b], other);
#pragma unroll
                    for (int k = 0; k < 8; k++)
                        if ((int)(chosen[a][b] >> 4 * k & 15) == dy * 3 + dx) sum[k] += other[k];
                }
            if (mean) {
                unpack(given[r][c], other);
#pragma unroll
                for (int k = 0; k < 8; k++)
                    sum[k] = fmaf(scales[k], sum[k], fmaf(inputs[k], other[k] - means[k], constants[k]));
            }
            write_8(y + first + ((long long)r * width + c) * channels, sum);
        }
}

// Group normalisation that remembers mean and factor of each group of each image.
extern "C" __global__ void group_norm_training(const number* x, const float* scale, const float* shift, const number* residual,
                                               number* y, float2* statistics, int pixels, int channels, int groups, int relu,
                                               float epsilon) {
    __shared__ float room[32];
    int width = channels / groups, eights = width / 8, group = blockIdx.x % groups, image = blockIdx.x / groups;
    long long first = (long long)image * pixels * channels + group * width;
    int total = pixels * eights;
    float numbers[8], sum = 0.0f;
    auto place = [&](int i) { return first + (long long)(i / eights) * channels + i % eights * 8; };
    for (int i = threadIdx.x; i < total; i += blockDim.x) {
        read_8(x + place(i), numbers);
#pragma unroll
        for (int k = 0; k < 8; k++) sum += numbers[k];
    }
    float mean = block_sum(sum, room) / (float)(pixels * width);
    sum = 0.0f;
    for (int i = threadIdx.x; i < total; i += blockDim.x) {
        read_8(x + place(i), numbers);
#pragma unroll
        for (int k = 0; k < 8; k++) sum += (numbers[k] - mean) * (numbers[k] - mean);
    }
    float factor = rsqrtf(block_sum(sum, room) / (float)(pixels * width) + epsilon);
    if (threadIdx.x == 0) statistics[blockIdx.x] = make_float2(mean, factor);
    for (int i = threadIdx.x; i < total; i += blockDim.x) {
        float scales[8], shifts[8], other[8];
        int channel = group * width + i % eights * 8;
        read_8(x + place(i), numbers);
        read_floats(scale + channel, scales);
        read_floats(shift + channel, shifts);
        if (residual) read_8(residual + place(i), other);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float out = (numbers[k] - mean) * factor * scales[k] + shifts[k];
            if (residual) out += other[k];
            numbers[k] = relu ? rectified(out) : out;
        }
        write_8(y + place(i), numbers);
    }
}

// Its gradient. Where `after` is given, `gradient` is left with what ReLU let through. For each image and channel the sums that weight
// and bias need. Threads have the same eight channels all the time.
constexpr int GROUP_THREADS = 256;

extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
    group_norm_gradient(number* gradient, const number* x, const number* after, const float2* statistics, const float* scale,
                        number* y, float2* sums, int pixels, int channels, int groups) {
    __shared__ float room[32];
    __shared__ float2 columns[GROUP_THREADS][9];
    int width = channels / groups, eights = width / 8, group = blockIdx.x % groups, image = blockIdx.x / groups;
    long long first = (long long)image * pixels * channels + group * width;
    int total = pixels * eights, eight = threadIdx.x % eights, channel = group * width + eight * 8;
    float mean = statistics[blockIdx.x].x, factor = statistics[blockIdx.x].y;
    auto place = [&](int i) { return first + (long long)(i / eights) * channels + eight * 8; };
    float from[8], given[8], other[8], scales[8], all[8] = {}, products[8] = {}, sum = 0.0f, product = 0.0f;
    read_floats(scale + channel, scales);
    for (int i = threadIdx.x; i < total; i += GROUP_THREADS) {
        read_8(gradient + place(i), from);
        read_8(x + place(i), given);
        if (after) {
            read_8(after + place(i), other);
#pragma unroll
            for (int k = 0; k < 8; k++) from[k] = other[k] > 0.0f ? from[k] : 0.0f;
            write_8(gradient + place(i), from);
        }
#pragma unroll
        for (int k = 0; k < 8; k++) all[k] += from[k], products[k] += from[k] * (given[k] - mean) * factor;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
        columns[threadIdx.x][k] = make_float2(all[k], products[k]);
        sum += all[k] * scales[k], product += products[k] * scales[k];
    }
    float count = (float)(pixels * width);
    sum = block_sum(sum, room) / count;
    product = block_sum(product, room) / count;
    for (int i = threadIdx.x; i < width; i += GROUP_THREADS) {
        float2 one = make_float2(0.0f, 0.0f);
        for (int t = i / 8; t < GROUP_THREADS; t += eights) one.x += columns[t][i % 8].x, one.y += columns[t][i % 8].y;
        sums[(long long)image * channels + group * width + i] = one;
    }
    for (int i = threadIdx.x; i < total; i += GROUP_THREADS) {
        read_8(gradient + place(i), from);
        read_8(x + place(i), given);
#pragma unroll
        for (int k = 0; k < 8; k++)
            given[k] = factor * (from[k] * scales[k] - sum - (given[k] - mean) * factor * product);
        write_8(y + place(i), given);
    }
}

// Sums over images to the gradients of weight and bias.
extern "C" __global__ void group_norm_parameters(const float2* sums, int images, int channels, double2* partial, int* arrived,
                                                 float* weight_gradient, float* bias_gradient, const int* is_good) {
    double2 all;
    if (!all_sums(sums, images, channels, partial, arrived, &all) || *is_good == BAD) return;
    int channel = blockIdx.x * 32 + threadIdx.x;
    add_gradient(weight_gradient + channel, (float)all.y, *is_good);
    add_gradient(bias_gradient + channel, (float)all.x, *is_good);
}
