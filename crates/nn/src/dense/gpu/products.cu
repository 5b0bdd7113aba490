// Matrix products in single precision, and convolutions as such products.
//
// One tile of a product is one block: 64 rows, 32 columns, the depth in steps of 16. What differs between a layer and a
// convolution, and between a forward and a backward pass, is where the numbers lie: `Left` and `Right` fetch them, `Out` puts
// the sums where they belong. Every sum has a fixed order, so that the same call gives the same bits.
//
// Every kernel takes one structure of fields of eight bytes. A block's `z` is its group (a camera, a critic, a moment);
// `Place` says where the part of a group lies.

typedef long long word;

constexpr int ROWS = 64, COLUMNS = 32, DEPTH = 16, THREADS = 128;
constexpr int LEFT = ROWS * DEPTH / THREADS, RIGHT = COLUMNS * DEPTH / THREADS;
// Outputs of a panel of weights, and up to how many outputs a layer has no panels: as on the CPU.
constexpr int PANEL = 32, NARROW = 8;
// Pixels whose products one block of a convolution's weight gradient sums up.
constexpr int MOST_PIXELS = 1024;

struct Place {
    float* start;
    word outer, inner;

    __device__ float* of(word group, word groups) const {
        return start + group / groups * outer + group % groups * inner;
    }
};

__device__ inline int minimum(int a, int b) { return a < b ? a : b; }

__device__ inline float activated(float x, int activation) {
    return activation == 1 ? tanhf(x) : activation == 2 ? (x < 0.0f ? 0.0f : x) : x;
}

// The gradient of what an activation took, from that of its output `y`.
__device__ inline float through_activation(float grad, float y, int activation) {
    return activation == 1 ? grad * (1.0f - y * y) : activation == 2 ? (y > 0.0f ? grad : 0.0f) : grad;
}

template <class Left, class Right, class Out>
__device__ inline void product(Left& left, Right& right, const Out& out, int first_row, int first_column, int depth) {
    __shared__ __align__(16) float a[2][DEPTH][ROWS + 4];
    __shared__ __align__(16) float b[2][DEPTH][COLUMNS + 4];
    const int thread = threadIdx.x;
    const int row = thread / 8 * 4, column = thread % 8 * 4;
    float sums[4][4] = {};
    float next_a[LEFT], next_b[RIGHT];

    if (Left::ALONG_DEPTH) {
#pragma unroll
        for (int j = 0; j < LEFT; j++) left.row(j, first_row + thread / DEPTH + THREADS / DEPTH * j);
    } else {
        left.row(0, first_row + thread % ROWS);
    }
    auto fetch = [&](int k) {
        if (Left::ALONG_DEPTH) {
            left.depth(k + thread % DEPTH);
#pragma unroll
            for (int j = 0; j < LEFT; j++) next_a[j] = left.get(j);
        } else {
#pragma unroll
            for (int j = 0; j < LEFT; j++) {
                left.depth(k + thread / ROWS + THREADS / ROWS * j);
                next_a[j] = left.get(0);
            }
        }
#pragma unroll
        for (int j = 0; j < RIGHT; j++) {
            next_b[j] = Right::ALONG_DEPTH
                            ? right.get(k + thread % DEPTH, first_column + thread / DEPTH + THREADS / DEPTH * j)
                            : right.get(k + thread / COLUMNS + THREADS / COLUMNS * j, first_column + thread % COLUMNS);
        }
    };
    auto keep = [&](int stage) {
#pragma unroll
        for (int j = 0; j < LEFT; j++) {
            if (Left::ALONG_DEPTH)
                a[stage][thread % DEPTH][thread / DEPTH + THREADS / DEPTH * j] = next_a[j];
            else
                a[stage][thread / ROWS + THREADS / ROWS * j][thread % ROWS] = next_a[j];
        }
#pragma unroll
        for (int j = 0; j < RIGHT; j++) {
            if (Right::ALONG_DEPTH)
                b[stage][thread % DEPTH][thread / DEPTH + THREADS / DEPTH * j] = next_b[j];
            else
                b[stage][thread / COLUMNS + THREADS / COLUMNS * j][thread % COLUMNS] = next_b[j];
        }
    };
    int stage = 0;
    fetch(0);
    keep(0);
    __syncthreads();
    for (int k = 0; k < depth; k += DEPTH) {
        const bool more = k + DEPTH < depth;
        if (more) fetch(k + DEPTH);
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            const float4 x = *reinterpret_cast<const float4*>(&a[stage][i][row]);
            const float4 y = *reinterpret_cast<const float4*>(&b[stage][i][column]);
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int r = 0; r < 4; r++) {
#pragma unroll
                for (int c = 0; c < 4; c++) sums[r][c] = fmaf(xs[r], ys[c], sums[r][c]);
            }
        }
        if (more) keep(stage ^ 1);
        __syncthreads();
        stage ^= 1;
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
#pragma unroll
        for (int c = 0; c < 4; c++) out.put(first_row + row + r, first_column + column + c, sums[r][c]);
    }
}

// ---- Layers ----

// Where a weight lies: in panels of outputs, or in rows of inputs where the layer is narrow.
__device__ inline word weight_place(int output, int input, int inputs, int outputs) {
    if (outputs <= NARROW) return (word)output * inputs + input;
    const int first = output / PANEL * PANEL;
    return (word)first * inputs + (word)input * minimum(PANEL, outputs - first) + (output - first);
}

// Rows of numbers, one after the other along the depth.
struct MatrixRows {
    static constexpr bool ALONG_DEPTH = true;
    const float* from;
    word stride;
    int rows, width, k;
    word offsets[LEFT];

    __device__ void row(int j, int row) { offsets[j] = row < rows ? row * stride : -1; }
    __device__ void depth(int at) { k = at; }
    __device__ float get(int j) const { return k < width && offsets[j] >= 0 ? from[offsets[j] + k] : 0.0f; }
};

// The same transposed, with a row of ones below: the gradient of a bias is a sum.
struct MatrixColumns {
    static constexpr bool ALONG_DEPTH = false;
    const float* from;
    word stride;
    int rows, width, column, k;

    __device__ void row(int, int row) { column = row; }
    __device__ void depth(int at) { k = at; }
    __device__ float get(int) const {
        if (k >= rows || column > width) return 0.0f;
        return column == width ? 1.0f : from[k * stride + column];
    }
};

struct Weights {
    static constexpr bool ALONG_DEPTH = false;
    const float* from;
    int inputs, outputs;

    __device__ float get(int k, int output) const {
        return k < inputs && output < outputs ? from[weight_place(output, k, inputs, outputs)] : 0.0f;
    }
};

struct WeightsTransposed {
    static constexpr bool ALONG_DEPTH = true;
    const float* from;
    int inputs, outputs;

    __device__ float get(int k, int input) const {
        return k < outputs && input < inputs ? from[weight_place(k, input, inputs, outputs)] : 0.0f;
    }
};

struct GradientRows {
    static constexpr bool ALONG_DEPTH = false;
    const float* from;
    word stride;
    int rows, width;

    __device__ float get(int k, int column) const {
        return k < rows && column < width ? from[k * stride + column] : 0.0f;
    }
};

struct LayerOut {
    float* to;
    const float* bias;
    word stride;
    int rows, width, activation;

    __device__ void put(int row, int column, float sum) const {
        if (row >= rows || column >= width) return;
        to[row * stride + column] = activated(bias ? sum + bias[column] : sum, activation);
    }
};

struct InputGradientOut {
    float* to;
    // Where there is a ReLU before, its outputs: gradients pass where they are positive.
    const float* relu;
    word stride;
    int rows, first, end;
    bool add;

    __device__ void put(int row, int column, float sum) const {
        if (row >= rows || column < first || column >= end) return;
        const word at = row * stride + column;
        if (relu && !(relu[at] > 0.0f)) sum = 0.0f;
        to[at] = add ? to[at] + sum : sum;
    }
};

struct WeightGradientOut {
    float* to;
    // Of the first bias from the first weight; negative without.
    word bias;
    int inputs, outputs;
    bool add;

    __device__ void put(int input, int output, float sum) const {
        if (input > inputs || output >= outputs || (input == inputs && bias < 0)) return;
        const word at = input == inputs ? bias + output : weight_place(output, input, inputs, outputs);
        to[at] = add ? to[at] + sum : sum;
    }
};

struct LayerForward {
    Place x;
    word x_stride;
    Place weights;
    word bias;
    Place y;
    word y_stride, groups, rows, inputs, outputs, activation;
};

// y = activation(x Wᵀ + b)
extern "C" __global__ void layer_forward(LayerForward job) {
    const word group = blockIdx.z;
    const float* weights = job.weights.of(group, job.groups);
    const int rows = job.rows, inputs = job.inputs, outputs = job.outputs;
    MatrixRows left{job.x.of(group, job.groups), job.x_stride, rows, inputs};
    Weights right{weights, inputs, outputs};
    const float* bias = job.bias < 0 ? nullptr : weights + job.bias;
    LayerOut out{job.y.of(group, job.groups), bias, job.y_stride, rows, outputs, (int)job.activation};
    product(left, right, out, blockIdx.x * ROWS, blockIdx.y * COLUMNS, inputs);
}

struct LayerInputGradient {
    Place grad;
    word grad_stride;
    Place weights, to;
    word to_stride;
    // With the layout of `to`, or none.
    const float* relu;
    word groups, rows, inputs, outputs, first, end, add;
};

// gx = g W for the inputs from `first` to `end`
extern "C" __global__ void layer_input_gradient(LayerInputGradient job) {
    const word group = blockIdx.z;
    const int rows = job.rows, inputs = job.inputs, outputs = job.outputs;
    float* to = job.to.of(group, job.groups);
    const float* relu = job.relu ? job.relu + (to - job.to.start) : nullptr;
    MatrixRows left{job.grad.of(group, job.groups), job.grad_stride, rows, outputs};
    WeightsTransposed right{job.weights.of(group, job.groups), inputs, outputs};
    InputGradientOut out{to, relu, job.to_stride, rows, (int)job.first, (int)job.end, job.add != 0};
    product(left, right, out, blockIdx.x * ROWS, (int)job.first / COLUMNS * COLUMNS + blockIdx.y * COLUMNS, outputs);
}

struct LayerWeightGradient {
    Place x;
    word x_stride;
    Place grad;
    word grad_stride;
    Place to;
    word bias, groups, rows, inputs, outputs, add;
};

// gW = gᵀ x, and the gradient of the bias
extern "C" __global__ void layer_weight_gradient(LayerWeightGradient job) {
    const word group = blockIdx.z;
    const int rows = job.rows, inputs = job.inputs, outputs = job.outputs;
    MatrixColumns left{job.x.of(group, job.groups), job.x_stride, rows, inputs};
    GradientRows right{job.grad.of(group, job.groups), job.grad_stride, rows, outputs};
    WeightGradientOut out{job.to.of(group, job.groups), job.bias, inputs, outputs, job.add != 0};
    product(left, right, out, blockIdx.x * ROWS, blockIdx.y * COLUMNS, rows);
}

// ---- Convolutions: square, without padding, of images [image, row, column, channel] and weights [row, column, in, out] ----

struct ConvShape {
    word images, height, width, in, out, kernel, stride;

    __device__ int rows() const { return (int)((height - kernel) / stride + 1); }
    __device__ int columns() const { return (int)((width - kernel) / stride + 1); }
};

// Where the first pixel under the kernel lies, for an output.
__device__ inline int under_kernel(const ConvShape& shape, int output) {
    const int columns = shape.columns(), each = shape.rows() * columns;
    const int image = output / each, y = output % each / columns, x = output % columns;
    return (int)(((image * shape.height + y * shape.stride) * shape.width + x * shape.stride) * shape.in);
}

// From there to the pixel and channel of a weight: a row of the kernel is one run of pixels.
__device__ inline int in_kernel(const ConvShape& shape, int k) {
    const int run = (int)(shape.kernel * shape.in);
    return (int)(k / run * shape.width * shape.in) + k % run;
}

struct Patches {
    static constexpr bool ALONG_DEPTH = true;
    const float* from;
    ConvShape shape;
    int outputs, weights, k;
    int offsets[LEFT];

    __device__ void row(int j, int row) { offsets[j] = row < outputs ? under_kernel(shape, row) : -1; }
    __device__ void depth(int at) { k = at < weights ? in_kernel(shape, at) : -1; }
    __device__ float get(int j) const { return k >= 0 && offsets[j] >= 0 ? from[offsets[j] + k] : 0.0f; }
};

// The same transposed, with a row of ones below, for some outputs whose places are in a table.
struct PatchColumns {
    static constexpr bool ALONG_DEPTH = false;
    const float* from;
    const int* table;
    ConvShape shape;
    int outputs, weights, offset, k;

    __device__ void row(int, int row) { offset = row < weights ? in_kernel(shape, row) : row == weights ? -1 : -2; }
    __device__ void depth(int at) { k = at; }
    __device__ float get(int) const {
        if (k >= outputs || offset == -2) return 0.0f;
        return offset == -1 ? 1.0f : from[table[k] + offset];
    }
};

struct ConvWeights {
    static constexpr bool ALONG_DEPTH = false;
    const float* from;
    int weights, out;

    __device__ float get(int k, int channel) const {
        return k < weights && channel < out ? from[k * out + channel] : 0.0f;
    }
};

struct ConvOut {
    float* to;
    const float* bias;
    int outputs, channels;

    __device__ void put(int output, int channel, float sum) const {
        if (output >= outputs || channel >= channels) return;
        if (bias) {
            sum += bias[channel];
            sum = sum < 0.0f ? 0.0f : sum;
        }
        to[(word)output * channels + channel] = sum;
    }
};

struct ConvForward {
    Place x, weights;
    word bias;
    Place y;
    word groups;
    ConvShape shape;
};

// y = ReLU(x * w + b), or x * w without a bias
extern "C" __global__ void conv_forward(ConvForward job) {
    const word group = blockIdx.z;
    const ConvShape& shape = job.shape;
    const float* kernel = job.weights.of(group, job.groups);
    const int outputs = (int)shape.images * shape.rows() * shape.columns();
    const int weights = (int)(shape.kernel * shape.kernel * shape.in), channels = (int)shape.out;
    Patches left{job.x.of(group, job.groups), shape, outputs, weights};
    ConvWeights right{kernel, weights, channels};
    ConvOut out{job.y.of(group, job.groups), job.bias < 0 ? nullptr : kernel + job.bias, outputs, channels};
    product(left, right, out, blockIdx.x * ROWS, blockIdx.y * COLUMNS, weights);
}

// Gradients of the outputs that pixels of one kind had a part in. Pixels whose row and column leave the same remainders by the
// stride meet the same weights of the kernel, so that nothing is multiplied with zeros between outputs.
struct OutputsOfPixels {
    static constexpr bool ALONG_DEPTH = true;
    const float* from;
    int rows, columns, channels;      // of the outputs
    int pixels, pixel_rows, pixel_columns; // of this kind
    int taps, weights;                // columns of the kernel, and all weights, that these meet
    int tap_y, tap_x, channel;
    int image[LEFT];
    int at[LEFT];

    __device__ void row(int j, int pixel) {
        const int each = pixel_rows * pixel_columns;
        image[j] = pixel < pixels ? pixel / each * rows : -1;
        at[j] = (pixel % each / pixel_columns) << 16 | pixel % pixel_columns;
    }
    __device__ void depth(int k) {
        if (k >= weights) {
            tap_y = 1 << 20; // nothing is there
            return;
        }
        channel = k % channels;
        tap_y = k / channels / taps;
        tap_x = k / channels % taps;
    }
    __device__ float get(int j) const {
        const int y = (at[j] >> 16) - tap_y, x = (at[j] & 0xffff) - tap_x;
        if (image[j] < 0 || y < 0 || y >= rows || x < 0 || x >= columns) return 0.0f;
        return from[((image[j] + y) * columns + x) * channels + channel];
    }
};

struct ConvWeightsOfPixels {
    static constexpr bool ALONG_DEPTH = true;
    const float* from;
    int kernel, stride, in, out;
    int first_y, first_x, taps, weights;

    __device__ float get(int k, int channel) const {
        if (k >= weights || channel >= in) return 0.0f;
        const int tap = k / out;
        const int y = first_y + stride * (tap / taps), x = first_x + stride * (tap % taps);
        return from[((y * kernel + x) * in + channel) * out + k % out];
    }
};

struct PixelGradientOut {
    float* to;
    const float* relu;
    int pixels, pixel_rows, pixel_columns;
    int height, width, channels, stride, first_y, first_x;

    __device__ void put(int pixel, int channel, float sum) const {
        if (pixel >= pixels || channel >= channels) return;
        const int each = pixel_rows * pixel_columns;
        const int y = first_y + stride * (pixel % each / pixel_columns), x = first_x + stride * (pixel % pixel_columns);
        const word at = (word)((pixel / each * height + y) * width + x) * channels + channel;
        to[at] = !relu || relu[at] > 0.0f ? sum : 0.0f;
    }
};

struct ConvInputGradient {
    Place grad, weights, to;
    const float* relu;
    word groups;
    ConvShape shape;
};

extern "C" __global__ void conv_input_gradient(ConvInputGradient job) {
    const word group = blockIdx.z;
    const ConvShape& shape = job.shape;
    const int stride = (int)shape.stride, in = (int)shape.in, channels = (int)shape.out, kernel = (int)shape.kernel;
    const int tiles = (in + COLUMNS - 1) / COLUMNS, kind = blockIdx.y / tiles;
    const int first_y = kind / stride, first_x = kind % stride;
    const int pixel_rows = ((int)shape.height - first_y + stride - 1) / stride;
    const int pixel_columns = ((int)shape.width - first_x + stride - 1) / stride;
    const int pixels = (int)shape.images * pixel_rows * pixel_columns;
    if ((int)blockIdx.x * ROWS >= pixels) return;
    const int taps_y = first_y < kernel ? (kernel - first_y + stride - 1) / stride : 0;
    const int taps_x = first_x < kernel ? (kernel - first_x + stride - 1) / stride : 0;
    const int weights = taps_y * taps_x * channels;
    float* to = job.to.of(group, job.groups);
    const float* relu = job.relu ? job.relu + (to - job.to.start) : nullptr;
    OutputsOfPixels left{job.grad.of(group, job.groups), shape.rows(), shape.columns(), channels,
                         pixels, pixel_rows, pixel_columns, taps_x, weights};
    ConvWeightsOfPixels right{job.weights.of(group, job.groups), kernel, stride, in, channels,
                              first_y, first_x, taps_x, weights};
    PixelGradientOut out{to, relu, pixels, pixel_rows, pixel_columns,
                         (int)shape.height, (int)shape.width, in, stride, first_y, first_x};
    product(left, right, out, blockIdx.x * ROWS, blockIdx.y % tiles * COLUMNS, weights);
}

struct PartialOut {
    float* to;
    int rows, channels;

    __device__ void put(int row, int channel, float sum) const {
        if (row < rows && channel < channels) to[row * channels + channel] = sum;
    }
};

struct ConvWeightGradient {
    Place x, grad, partial;
    word groups;
    ConvShape shape;
    // Outputs that a block sums up, and whether there is a bias.
    word pixels, has_bias;
};

// Sums over some of the outputs, for every weight and, below them, every bias: [chunk, weights (+ 1), channels]
extern "C" __global__ void conv_weight_gradient(ConvWeightGradient job) {
    __shared__ int table[MOST_PIXELS];
    const word group = blockIdx.z;
    const ConvShape& shape = job.shape;
    const int channels = (int)shape.out, weights = (int)(shape.kernel * shape.kernel * shape.in);
    const int all = (int)shape.images * shape.rows() * shape.columns();
    const int first = blockIdx.x * (int)job.pixels, count = minimum((int)job.pixels, all - first);
    for (int i = threadIdx.x; i < count; i += THREADS) table[i] = under_kernel(shape, first + i);
    __syncthreads();
    const int rows = weights + (int)job.has_bias, tiles = (channels + COLUMNS - 1) / COLUMNS;
    PatchColumns left{job.x.of(group, job.groups), table, shape, count, weights};
    GradientRows right{job.grad.of(group, job.groups) + (word)first * channels, channels, count, channels};
    PartialOut out{job.partial.of(group, job.groups) + (word)blockIdx.x * rows * channels, rows, channels};
    product(left, right, out, blockIdx.y / tiles * ROWS, blockIdx.y % tiles * COLUMNS, count);
}
