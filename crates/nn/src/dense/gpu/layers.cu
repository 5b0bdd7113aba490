// What lies between products: images, keypoints, norms and activations, sums, optimisers.

// Sums over a block, in a fixed order; every thread gets the result.
template <class Number>
__device__ inline Number block_sum(Number mine, Number* shared) {
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    const Number sum = shared[0];
    __syncthreads();
    return sum;
}

struct Center {
    const unsigned char* bytes;
    float* to;
    // Rows and columns that each image is shifted by; none where they stay.
    const int* shifts;
    word images, height, width, channels;
};

// Bytes as numbers from -0.5 to 0.5, of images that are shifted; what enters at an edge repeats that edge.
extern "C" __global__ void center_images(Center job) {
    const int row = (int)(job.width * job.channels), each = (int)job.height * row;
    const word at = (word)blockIdx.x * THREADS + threadIdx.x;
    if (at >= job.images * each) return;
    const int image = (int)(at / each), rest = (int)(at % each);
    int y = rest / row, x = rest % row / (int)job.channels;
    if (job.shifts) {
        y += job.shifts[2 * image];
        x += job.shifts[2 * image + 1];
        y = y < 0 ? 0 : y >= job.height ? (int)job.height - 1 : y;
        x = x < 0 ? 0 : x >= job.width ? (int)job.width - 1 : x;
    }
    const unsigned char byte = job.bytes[(word)image * each + y * row + x * (int)job.channels + rest % (int)job.channels];
    job.to[at] = (float)byte / 255.0f - 0.5f;
}

struct KeypointsJob {
    Place values, points;
    word groups, height, width, channels;
    // Backward alone: the gradients of the points, and of the values.
    Place grad_points, grad_values;
};

__device__ inline float coordinate(int at, int size) {
    return size == 1 ? 0.0f : 2.0f * (float)at / (float)(size - 1) - 1.0f;
}

// The mean position of a channel under a softmax over positions; the values become probabilities. A block takes 32 channels of
// one image, four threads a channel.
extern "C" __global__ void keypoints_forward(KeypointsJob job) {
    __shared__ float found[4][32];
    const int channels = (int)job.channels, positions = (int)(job.height * job.width);
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32, channel = blockIdx.y * 32 + lane;
    const bool there = channel < channels;
    float* values = job.values.of(blockIdx.z, job.groups) + (word)blockIdx.x * positions * channels + channel;
    float* points = job.points.of(blockIdx.z, job.groups) + (word)blockIdx.x * 2 * channels + channel;
    auto all = [&](float mine, bool largest) {
        found[part][lane] = mine;
        __syncthreads();
        float result = found[0][lane];
        for (int i = 1; i < 4; i++) {
            const float other = found[i][lane];
            result = largest ? (other > result ? other : result) : result + other;
        }
        __syncthreads();
        return result;
    };
    float most = -3.4e38f;
    for (int i = part; there && i < positions; i += 4) most = values[i * channels] > most ? values[i * channels] : most;
    most = all(most, true);
    float sum = 0.0f;
    for (int i = part; there && i < positions; i += 4) {
        const float power = expf(values[i * channels] - most);
        values[i * channels] = power;
        sum += power;
    }
    sum = all(sum, false);
    float x = 0.0f, y = 0.0f;
    for (int i = part; there && i < positions; i += 4) {
        const float p = values[i * channels] / sum;
        values[i * channels] = p;
        x = fmaf(p, coordinate(i % (int)job.width, (int)job.width), x);
        y = fmaf(p, coordinate(i / (int)job.width, (int)job.height), y);
    }
    x = all(x, false);
    y = all(y, false);
    if (there && part == 0) {
        points[0] = x;
        points[channels] = y;
    }
}

// p ((x - x̂) ∂x̂ + (y - ŷ) ∂ŷ) at every position
extern "C" __global__ void keypoints_backward(KeypointsJob job) {
    const int channels = (int)job.channels, each = (int)(job.height * job.width) * channels;
    const int at = blockIdx.y * THREADS + threadIdx.x;
    if (at >= each) return;
    const int channel = at % channels, position = at / channels;
    const word image = (word)blockIdx.x;
    const float p = job.values.of(blockIdx.z, job.groups)[image * each + at];
    const float* points = job.points.of(blockIdx.z, job.groups) + image * 2 * channels + channel;
    const float* grad = job.grad_points.of(blockIdx.z, job.groups) + image * 2 * channels + channel;
    const float right = coordinate(position % (int)job.width, (int)job.width) - points[0];
    const float down = coordinate(position / (int)job.width, (int)job.height) - points[channels];
    job.grad_values.of(blockIdx.z, job.groups)[image * each + at] = p * fmaf(right, grad[0], down * grad[channels]);
}

struct NormForward {
    // What the product gave; becomes the normed numbers, and after each row one over its deviation.
    Place hat;
    word hat_stride;
    // Scale, then shift.
    Place norm;
    Place y;
    word y_stride, groups, rows, width, activation;
};

extern "C" __global__ void norm_forward(NormForward job) {
    __shared__ float sums[THREADS];
    const int width = (int)job.width;
    float* hat = job.hat.of(blockIdx.z, job.groups) + blockIdx.x * job.hat_stride;
    float* y = job.y.of(blockIdx.z, job.groups) + blockIdx.x * job.y_stride;
    const float* norm = job.norm.of(blockIdx.z, job.groups);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += THREADS) sum += hat[i];
    const float mean = block_sum(sum, sums) / (float)width;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += THREADS) squares = fmaf(hat[i] - mean, hat[i] - mean, squares);
    const float inv_std = 1.0f / sqrtf(block_sum(squares, sums) / (float)width + 1e-5f);
    for (int i = threadIdx.x; i < width; i += THREADS) {
        const float normed = (hat[i] - mean) * inv_std;
        hat[i] = normed;
        y[i] = activated(fmaf(normed, norm[i], norm[width + i]), (int)job.activation);
    }
    if (threadIdx.x == 0) hat[width] = inv_std;
}

struct LayerBackward {
    Place grad;
    word grad_stride;
    Place y;
    word y_stride;
    // Nowhere for a layer without a norm.
    Place hat;
    word hat_stride;
    Place norm, to;
    word groups, rows, width, activation;
};

// From the gradient of a layer's output to that of its product.
extern "C" __global__ void layer_backward(LayerBackward job) {
    __shared__ float sums[THREADS];
    const int width = (int)job.width, activation = (int)job.activation;
    const float* grad = job.grad.of(blockIdx.z, job.groups) + blockIdx.x * job.grad_stride;
    const float* y = job.y.of(blockIdx.z, job.groups) + blockIdx.x * job.y_stride;
    float* to = job.to.of(blockIdx.z, job.groups) + blockIdx.x * job.width;
    if (!job.hat.start) {
        for (int i = threadIdx.x; i < width; i += THREADS) to[i] = through_activation(grad[i], y[i], activation);
        return;
    }
    const float* hat = job.hat.of(blockIdx.z, job.groups) + blockIdx.x * job.hat_stride;
    const float* norm = job.norm.of(blockIdx.z, job.groups);
    float sum = 0.0f, along = 0.0f;
    for (int i = threadIdx.x; i < width; i += THREADS) {
        const float g = through_activation(grad[i], y[i], activation) * norm[i];
        sum += g;
        along = fmaf(g, hat[i], along);
    }
    sum = block_sum(sum, sums) / (float)width;
    along = block_sum(along, sums) / (float)width;
    const float inv_std = hat[width];
    for (int i = threadIdx.x; i < width; i += THREADS) {
        const float g = through_activation(grad[i], y[i], activation) * norm[i];
        to[i] = inv_std * (g - sum - hat[i] * along);
    }
}

struct NormGradient {
    Place grad;
    word grad_stride;
    Place y;
    word y_stride;
    Place hat;
    word hat_stride;
    Place to;
    word groups, rows, width, activation, add;
};

// Gradients of scale and shift: 32 columns a block, the rows in four parts.
extern "C" __global__ void norm_gradient(NormGradient job) {
    __shared__ float parts[2][4][32];
    const int width = (int)job.width, lane = threadIdx.x % 32, part = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    const float* grad = job.grad.of(blockIdx.z, job.groups);
    const float* y = job.y.of(blockIdx.z, job.groups);
    const float* hat = job.hat.of(blockIdx.z, job.groups);
    float scale = 0.0f, shift = 0.0f;
    for (word row = part; column < width && row < job.rows; row += 4) {
        const float g = through_activation(grad[row * job.grad_stride + column], y[row * job.y_stride + column],
                                           (int)job.activation);
        scale = fmaf(g, hat[row * job.hat_stride + column], scale);
        shift += g;
    }
    parts[0][part][lane] = scale;
    parts[1][part][lane] = shift;
    __syncthreads();
    if (part > 1 || column >= width) return;
    const float sum = (parts[part][0][lane] + parts[part][1][lane]) + (parts[part][2][lane] + parts[part][3][lane]);
    float* to = job.to.of(blockIdx.z, job.groups) + part * width + column;
    *to = job.add ? *to + sum : sum;
}

struct SumParts {
    Place from;
    // Of one part after the other.
    word step, parts;
    Place to;
    word groups, rows, from_stride, to_stride, first, width, add;
};

// Adds up the same rows of several parts, in their order: the chunks of a gradient, or what several networks say of one input.
extern "C" __global__ void sum_parts(SumParts job) {
    const word at = (word)blockIdx.x * THREADS + threadIdx.x;
    if (at >= job.rows * job.width) return;
    const word row = at / job.width, column = job.first + at % job.width;
    const float* from = job.from.of(blockIdx.z, job.groups) + row * job.from_stride + column;
    float sum = 0.0f;
    for (word part = 0; part < job.parts; part++) sum += from[part * job.step];
    float* to = job.to.of(blockIdx.z, job.groups) + row * job.to_stride + column;
    *to = job.add ? *to + sum : sum;
}

struct Squares {
    const float* values;
    word len;
    double* partial;
    float* norm;
    word blocks;
};

// The sum of squares, by blocks.
extern "C" __global__ void sum_squares(Squares job) {
    __shared__ double sums[THREADS];
    double sum = 0.0;
    for (word i = (word)blockIdx.x * THREADS + threadIdx.x; i < job.len; i += job.blocks * THREADS)
        sum += (double)job.values[i] * (double)job.values[i];
    sum = block_sum(sum, sums);
    if (threadIdx.x == 0) job.partial[blockIdx.x] = sum;
}

extern "C" __global__ void gradient_norm(Squares job) {
    __shared__ double sums[THREADS];
    double sum = 0.0;
    for (word i = threadIdx.x; i < job.blocks; i += THREADS) sum += job.partial[i];
    sum = block_sum(sum, sums);
    if (threadIdx.x == 0) *job.norm = (float)sqrt(sum);
}

struct AdamJob {
    float *params, *means, *squares;
    const float* grads;
    word len;
    // The numbers of this step, and the norm of all gradients.
    const float *step, *norm;
};

// One step of Adam or AdamW, with gradients clipped to a norm. Where the norm is not finite nothing changes: stopping is for
// the caller.
extern "C" __global__ void adam_step(AdamJob job) {
    const word i = (word)blockIdx.x * THREADS + threadIdx.x;
    const float norm = *job.norm;
    if (i >= job.len || !(norm <= 3.4e38f)) return;
    const float new_mean = job.step[0], old_square = job.step[1], new_square = job.step[2], root_scale = job.step[3];
    const float eps = job.step[4], rate = job.step[5], keep = job.step[6], scale = job.step[7] / (norm + 1e-6f);
    const float grad = scale < 1.0f ? job.grads[i] * scale : job.grads[i];
    const float mean = fmaf(new_mean, grad - job.means[i], job.means[i]);
    const float square = fmaf(grad * grad, new_square, job.squares[i] * old_square);
    job.means[i] = mean;
    job.squares[i] = square;
    job.params[i] = fmaf(-rate, mean / fmaf(sqrtf(square), root_scale, eps), job.params[i] * keep);
}

struct Follow {
    float* target;
    const float* source;
    word len;
    // Of one number: how far.
    const float* tau;
};

// target += tau (source - target), as on the CPU; a tau of one copies.
extern "C" __global__ void follow(Follow job) {
    const word i = (word)blockIdx.x * THREADS + threadIdx.x;
    if (i >= job.len) return;
    const float tau = *job.tau;
    job.target[i] = tau == 1.0f ? job.source[i] : fmaf(tau, job.source[i] - job.target[i], job.target[i]);
}
