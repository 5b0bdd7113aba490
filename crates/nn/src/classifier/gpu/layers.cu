// What a classifier does beside its convolutions: preprocessing, pools, group normalisation, and the head, which is in floats.

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

// The sum over a block, in every thread.
__device__ __forceinline__ float block_sum(float x, float* room) {
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < (int)(blockDim.x / 32); i++) sum += room[i];
    return sum;
}

// Images to squares of 2x2 pixels side by side: 12 channels and four zeros, with two rows and columns of zeros before and one
// after. The 7x7 convolution of stride 2 is then one of 4x4 and stride 1, whose inputs in a row are 64 neighbours.
// Bytes go through a table; floats are what they are.
extern "C" __global__ void space_to_depth(const void* images, int is_bytes, const float* table, number* y, int count, int height,
                                          int width, int out_height, int out_width, int stride_image, int stride_y,
                                          int stride_x, int stride_colour) {
    int all_y = out_height + 3, all_x = out_width + 3;
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count * all_y * all_x) return;
    int image = place / (all_y * all_x), rest = place - image * (all_y * all_x);
    int square_y = rest / all_x - 2, square_x = rest % all_x - 2;
    float x[16] = {};
#pragma unroll
    for (int dy = 0; dy < 2; dy++)
#pragma unroll
        for (int dx = 0; dx < 2; dx++) {
            int row = 2 * square_y + dy, column = 2 * square_x + dx;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            long long at = (long long)image * stride_image + row * stride_y + column * stride_x;
#pragma unroll
            for (int colour = 0; colour < 3; colour++, at += stride_colour)
                x[(dy * 2 + dx) * 3 + colour] =
                    is_bytes ? table[colour * 256 + ((const u8*)images)[at]] : ((const float*)images)[at];
        }
    write_8(y + place * 16ll, x);
    write_8(y + place * 16ll + 8, x + 8);
}

// 3x3, stride 2, padding 1.
extern "C" __global__ void max_pool(const number* x, number* y, int count, int height, int width, int out_height, int out_width,
                                    int channels) {
    int eights = channels / 8;
    long long place = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (place >= (long long)count * out_height * out_width * eights) return;
    int eight = (int)(place % eights);
    long long pixel = place / eights;
    int out_x = (int)(pixel % out_width), out_y = (int)(pixel / out_width % out_height);
    const number* image = x + pixel / (out_width * out_height) * ((long long)height * width * channels) + eight * 8;
    float most[8], other[8];
#pragma unroll
    for (int i = 0; i < 8; i++) most[i] = __int_as_float(0xff800000);
#pragma unroll
    for (int dy = -1; dy <= 1; dy++)
#pragma unroll
        for (int dx = -1; dx <= 1; dx++) {
            int row = 2 * out_y + dy, column = 2 * out_x + dx;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            read_8(image + (long long)(row * width + column) * channels, other);
#pragma unroll
            for (int i = 0; i < 8; i++) most[i] = fmaxf(most[i], other[i]);
        }
    write_8(y + place * 8, most);
}

// A block for each group of each image. Three passes: mean, variance, and what comes of them.
extern "C" __global__ void group_norm(const number* x, const float* scale, const float* shift, const number* residual, number* y,
                                      int pixels, int channels, int groups, int relu, float epsilon) {
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
            numbers[k] = relu ? fmaxf(out, 0.0f) : out;
        }
        write_8(y + place(i), numbers);
    }
}

// The mean over all pixels of an image, into a row of features.
extern "C" __global__ void average(const number* x, float* y, int pixels, int channels, int row_stride) {
    int image = blockIdx.x;
    for (int eight = threadIdx.x; eight < channels / 8; eight += blockDim.x) {
        float sums[8] = {}, numbers[8];
        for (int pixel = 0; pixel < pixels; pixel++) {
            read_8(x + ((long long)image * pixels + pixel) * channels + eight * 8, numbers);
#pragma unroll
            for (int i = 0; i < 8; i++) sums[i] += numbers[i];
        }
#pragma unroll
        for (int i = 0; i < 8; i++) y[(long long)image * row_stride + eight * 8 + i] = sums[i] / (float)pixels;
    }
}

// Each channel's positions weighted by what was learned for it: [n, positions, channels] and [channels, positions, blocks] to
// [n, channels, blocks].
template <typename T>
__device__ __forceinline__ void embed(const T* x, const float* kernel, float* y, int count, int positions, int channels,
                                      int blocks, float (*read)(T)) {
    long long place = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (place >= (long long)count * channels * blocks) return;
    int block = (int)(place % blocks), channel = (int)(place / blocks % channels);
    long long image = place / blocks / channels;
    float sum = 0.0f;
    for (int i = 0; i < positions; i++)
        sum += read(x[(image * positions + i) * channels + channel]) * kernel[((long long)channel * positions + i) * blocks + block];
    y[place] = sum;
}

__device__ __forceinline__ float as_float(float x) { return x; }
#if !defined(NUMBER_F32)
__device__ __forceinline__ float as_float(number x) { return low(x); }
#endif

extern "C" __global__ void spatial_embeddings(const number* x, const float* kernel, float* y, int count, int positions,
                                              int channels, int blocks) {
    embed<number>(x, kernel, y, count, positions, channels, blocks, [](number n) { return as_float(n); });
}

extern "C" __global__ void pooled_embeddings(const float* x, const float* kernel, float* y, int count, int positions, int channels,
                                             int blocks) {
    embed<float>(x, kernel, y, count, positions, channels, blocks, [](float n) { return n; });
}

// A warp for four outputs of eight rows.
constexpr int LINEAR_ROWS = 8, LINEAR_OUTPUTS = 4;

extern "C" __global__ void linear(const float* x, const float* weights, const float* bias, float* y, int rows, int inputs,
                                  int outputs, int relu) {
    int groups = (outputs + LINEAR_OUTPUTS - 1) / LINEAR_OUTPUTS, lane = threadIdx.x % 32;
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int first_row = warp / groups * LINEAR_ROWS, first_output = warp % groups * LINEAR_OUTPUTS;
    if (first_row >= rows) return;
    float sums[LINEAR_ROWS][LINEAR_OUTPUTS] = {};
    for (int i = lane; i < inputs; i += 32) {
        float w[LINEAR_OUTPUTS];
#pragma unroll
        for (int o = 0; o < LINEAR_OUTPUTS; o++)
            w[o] = first_output + o < outputs ? weights[(long long)(first_output + o) * inputs + i] : 0.0f;
#pragma unroll
        for (int r = 0; r < LINEAR_ROWS; r++) {
            float from = first_row + r < rows ? x[(long long)(first_row + r) * inputs + i] : 0.0f;
#pragma unroll
            for (int o = 0; o < LINEAR_OUTPUTS; o++) sums[r][o] += from * w[o];
        }
    }
#pragma unroll
    for (int r = 0; r < LINEAR_ROWS; r++)
#pragma unroll
        for (int o = 0; o < LINEAR_OUTPUTS; o++) {
            float sum = warp_sum(sums[r][o]);
            if (lane != 0 || first_row + r >= rows || first_output + o >= outputs) continue;
            sum += bias[first_output + o];
            y[(long long)(first_row + r) * outputs + first_output + o] = relu ? fmaxf(sum, 0.0f) : sum;
        }
}

// A warp for each row; then ReLU (1) or the hyperbolic tangent (2).
extern "C" __global__ void layer_norm(const float* x, const float* scale, const float* shift, float* y, int rows, int width,
                                      int y_stride, int activation, float epsilon) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* from = x + (long long)row * width;
    float sum = 0.0f;
    for (int i = lane; i < width; i += 32) sum += from[i];
    float mean = warp_sum(sum) / (float)width;
    sum = 0.0f;
    for (int i = lane; i < width; i += 32) sum += (from[i] - mean) * (from[i] - mean);
    float factor = rsqrtf(warp_sum(sum) / (float)width + epsilon);
    for (int i = lane; i < width; i += 32) {
        float out = (from[i] - mean) * factor * scale[i] + shift[i];
        y[(long long)row * y_stride + i] = activation == 1 ? fmaxf(out, 0.0f) : activation == 2 ? tanhf(out) : out;
    }
}
