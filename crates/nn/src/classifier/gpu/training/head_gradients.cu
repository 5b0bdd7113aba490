// The backward pass of a classifier's head, in floats, and the loss.

// [rows, outputs] and [outputs, inputs] to [rows, inputs].
extern "C" __global__ void linear_input_gradient(const float* gradient, const float* weights, float* y, int rows, int inputs,
                                                 int outputs) {
    int place = blockIdx.x * blockDim.x + threadIdx.x, row = place / inputs, input = place - row * inputs;
    if (row >= rows) return;
    float sum = 0.0f;
#pragma unroll 8
    for (int o = 0; o < outputs; o++) sum += gradient[row * outputs + o] * weights[(long long)o * inputs + input];
    y[place] = sum;
}

// [rows, outputs] and [rows, inputs] to [outputs, inputs], and the bias: the last of `inputs + 1` columns.
extern "C" __global__ void linear_weight_gradient(const float* gradient, const float* x, float* weights, float* bias, int rows,
                                                  int inputs, int outputs, const int* is_good) {
    int place = blockIdx.x * blockDim.x + threadIdx.x, output = place / (inputs + 1), input = place - output * (inputs + 1);
    if (output >= outputs || *is_good == BAD) return;
    float sum = 0.0f;
#pragma unroll 8
    for (int row = 0; row < rows; row++)
        sum += gradient[row * outputs + output] * (input < inputs ? x[(long long)row * inputs + input] : 1.0f);
    add_gradient(input < inputs ? weights + (long long)output * inputs + input : bias + output, sum, *is_good);
}

// Times what was kept, and where ReLU let something through; either may be missing.
extern "C" __global__ void masked(const float* x, const float* kept, const float* after, float* y, int count) {
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count) return;
    float out = kept ? x[place] * kept[place] : x[place];
    y[place] = after && !(after[place] > 0.0f) ? 0.0f : out;
}

// A warp for each row: the gradient through ReLU (1) or the hyperbolic tangent (2), and layer normalisation. `after` and `gradient`
// have rows `stride` apart. Leaves the products that weights and biases sum up.
extern "C" __global__ void layer_norm_gradient(const float* gradient, const float* after, const float* x, const float* scale,
                                               float* y, float2* products, int rows, int width, int stride, int activation,
                                               float epsilon) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* from = x + (long long)row * width;
    float sum = 0.0f;
    for (int i = lane; i < width; i += 32) sum += from[i];
    float mean = warp_sum(sum) / (float)width;
    sum = 0.0f;
    for (int i = lane; i < width; i += 32) sum += (from[i] - mean) * (from[i] - mean);
    float factor = rsqrtf(warp_sum(sum) / (float)width + epsilon), product = 0.0f;
    sum = 0.0f;
    for (int i = lane; i < width; i += 32) {
        float out = after[(long long)row * stride + i], back = gradient[(long long)row * stride + i];
        back = activation == 1 ? (out > 0.0f ? back : 0.0f) : activation == 2 ? back * (1.0f - out * out) : back;
        float normed_number = (from[i] - mean) * factor;
        products[(long long)row * width + i] = make_float2(back, back * normed_number);
        sum += back * scale[i], product += back * scale[i] * normed_number;
    }
    sum = warp_sum(sum) / (float)width, product = warp_sum(product) / (float)width;
    for (int i = lane; i < width; i += 32) {
        float back = products[(long long)row * width + i].x;
        y[(long long)row * width + i] = factor * (back * scale[i] - sum - (from[i] - mean) * factor * product);
    }
}

// Sums of products over rows, to the gradients of weight and bias.
extern "C" __global__ void layer_norm_parameters(const float2* products, float* weight_gradient, float* bias_gradient, int rows,
                                                 int width, const int* is_good) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width || *is_good == BAD) return;
    float2 sum = make_float2(0.0f, 0.0f);
    for (int row = 0; row < rows; row++) {
        float2 one = products[(long long)row * width + column];
        sum.x += one.x, sum.y += one.y;
    }
    add_gradient(weight_gradient + column, sum.y, *is_good);
    add_gradient(bias_gradient + column, sum.x, *is_good);
}

// From the gradient of a mean over pixels to that of each pixel.
extern "C" __global__ void average_gradient(const float* gradient, number* y, long long count, int pixels, int channels,
                                            int row_stride) {
    long long place = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * 8;
    if (place >= count) return;
    int channel = (int)(place % channels);
    long long image = place / channels / pixels;
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = gradient[image * row_stride + channel + i] / (float)pixels;
    write_8(y + place, x);
}

// Embeddings of positions: the gradient of what they weigh, [n, positions, channels].
template <typename T>
__device__ __forceinline__ void embed_gradient(const float* gradient, const float* kernel, T* y, int count, int positions,
                                               int channels, int blocks, void (*put)(T*, float)) {
    long long place = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (place >= (long long)count * positions * channels) return;
    int channel = (int)(place % channels), position = (int)(place / channels % positions);
    long long image = place / channels / positions;
    float sum = 0.0f;
    for (int b = 0; b < blocks; b++)
        sum += gradient[(image * channels + channel) * blocks + b] * kernel[((long long)channel * positions + position) * blocks + b];
    put(y + place, sum);
}

extern "C" __global__ void spatial_embeddings_gradient(const float* gradient, const float* kernel, number* y, int count,
                                                       int positions, int channels, int blocks) {
    embed_gradient<number>(gradient, kernel, y, count, positions, channels, blocks, [](number* to, float x) {
#if defined(NUMBER_F32)
        *to = x;
#else
        *to = (number)rounded(x, x);
#endif
    });
}

extern "C" __global__ void pooled_embeddings_gradient(const float* gradient, const float* kernel, float* y, int count,
                                                      int positions, int channels, int blocks) {
    embed_gradient<float>(gradient, kernel, y, count, positions, channels, blocks, [](float* to, float x) { *to = x; });
}

// And that of the embeddings, [channels, positions, blocks].
template <typename T>
__device__ __forceinline__ void embedding_weights(const float* gradient, const T* x, float* kernel, int count, int positions,
                                                  int channels, int blocks, const int* is_good, float (*read)(T)) {
    long long place = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (place >= (long long)channels * positions * blocks || *is_good == BAD) return;
    int b = (int)(place % blocks), position = (int)(place / blocks % positions), channel = (int)(place / blocks / positions);
    float sum = 0.0f;
    for (int image = 0; image < count; image++)
        sum += read(x[((long long)image * positions + position) * channels + channel]) *
               gradient[((long long)image * channels + channel) * blocks + b];
    add_gradient(kernel + place, sum, *is_good);
}

extern "C" __global__ void spatial_embeddings_weights(const float* gradient, const number* x, float* kernel, int count,
                                                      int positions, int channels, int blocks, const int* is_good) {
    embedding_weights<number>(gradient, x, kernel, count, positions, channels, blocks, is_good,
                              [](number n) { return as_float(n); });
}

extern "C" __global__ void pooled_embeddings_weights(const float* gradient, const float* x, float* kernel, int count, int positions,
                                                     int channels, int blocks, const int* is_good) {
    embedding_weights<float>(gradient, x, kernel, count, positions, channels, blocks, is_good, [](float n) { return n; });
}

// The mean of each logit's loss times its weight, and its gradient by each logit, in doubles; one block. Focal with `gamma`, which is
// negative for plain cross entropy; what gradients are multiplied by; and what a good loss is called. `examples` has a label and a weight for each logit; `found` the loss.
extern "C" __global__ void logit_loss(const float* logits, const float2* examples, int count, const double* numbers, float* gradient,
                                      double* found, int* is_good) {
    __shared__ double room[256];
    double gamma = numbers[0], factor = numbers[1], sum = 0.0;
    for (int i = threadIdx.x; i < count; i += 256) {
        double logit = (double)logits[i], label = (double)examples[i].x, weight = (double)examples[i].y / (double)count;
        double probability = 1.0 / (1.0 + exp(-logit));
        double cost = fmax(logit, 0.0) - logit * label + log1p(exp(-fabs(logit))), slope = probability - label;
        if (gamma >= 0.0) {
            double wrong = probability + label - 2.0 * probability * label, power = pow(wrong, gamma);
            double of_power =
                wrong > 0.0 ? gamma * pow(wrong, gamma - 1.0) * probability * (1.0 - probability) * (1.0 - 2.0 * label) : 0.0;
            slope = slope * power + cost * of_power;
            cost *= power;
        }
        // A weight that is not a number, or a logit, makes the whole loss one that is not.
        sum += weight * cost;
        gradient[i] = (float)(factor * weight * slope);
    }
    room[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0.0;
        for (int i = 0; i < 256; i++) sum += room[i];
        *found = sum;
        *is_good = isfinite(sum) ? (int)numbers[2] : BAD;
    }
}
