// AdamW over all parameters at once, clipped by the length of the whole gradient.

// How far numbers move, which depends on how many steps moved them before.
struct Factors {
    float new_mean, old_square, new_square, root_scale, eps, rate, keep;
};

// What a step is made with. Every field has four bytes; the host fills it, perhaps before it knows whether the step before moved anything:
// the first factors are for one that did, the second for one that did not.
struct AdamStep {
    float clip;  // no more than this length; infinite: as long as it is
    Factors factors[2];
};

// What a step found: the length of the gradient, what it was multiplied by, whether it is finite, so that the step moves anything, and
// which factors it is made with.
struct Found {
    double norm;
    float factor;
    int moves, which;
};

extern "C" __global__ void gradient_norm(const float* gradient, int count, const AdamStep* step, double* partial, int* arrived,
                                         Found* found) {
    __shared__ double room[256];
    __shared__ bool is_last;
    double sum = 0.0;
    for (int i = (blockIdx.x * 256 + threadIdx.x) * 4; i < count; i += gridDim.x * 1024) {
        float4 x = *(const float4*)(gradient + i);
        sum += (double)x.x * x.x + (double)x.y * x.y + (double)x.z * x.z + (double)x.w * x.w;
    }
    auto add = [&]() {
        room[threadIdx.x] = sum;
        __syncthreads();
        for (int half = 128; half > 0; half /= 2) {
            if ((int)threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
            __syncthreads();
        }
    };
    add();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = room[0];
        __threadfence();
        is_last = atomicAdd(arrived, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    sum = 0.0;
    for (int i = threadIdx.x; i < (int)gridDim.x; i += 256) sum += __ldcg(partial + i);
    add();
    if (threadIdx.x != 0) return;
    *arrived = 0;
    double norm = sqrt(room[0]), factor = (double)step->clip / (norm + 1e-6);
    found->which = found->moves ? 0 : 1;  // of the step before
    found->norm = norm;
    found->factor = (float)fmin(factor, 1.0);
    found->moves = isfinite(norm);
}

// Moves parameters, and rounds what the convolutions will use.
extern "C" __global__ void adamw(float* parameters, const float* gradient, float* means, float* squares, number* rounded_parameters,
                                 int count, const AdamStep* settings, const Found* found) {
    int place = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (place >= count) return;
    // All on their way at once.
    float4 from = __ldcs((const float4*)(gradient + place)), p = *(const float4*)(parameters + place);
    float4 m = __ldcs((const float4*)(means + place)), v = __ldcs((const float4*)(squares + place));
    Factors step = settings->factors[found->which];
    float factor = found->factor;
    if (!found->moves) return;
    auto move = [&](float& p, float g, float& m, float& v) {
        g *= factor;
        m += step.new_mean * (g - m);
        v = step.old_square * v + step.new_square * g * g;
        p = p * step.keep - step.rate * m / (sqrtf(v) * step.root_scale + step.eps);
    };
    move(p.x, from.x, m.x, v.x), move(p.y, from.y, m.y, v.y), move(p.z, from.z, m.z, v.z), move(p.w, from.w, m.w, v.w);
    *(float4*)(parameters + place) = p;
    __stcs((float4*)(means + place), m);
    __stcs((float4*)(squares + place), v);
#if !defined(NUMBER_F32)
    *(uint2*)(rounded_parameters + place) = make_uint2(rounded(p.x, p.y), rounded(p.z, p.w));
#endif
}

// All parameters rounded: after they came from elsewhere.
extern "C" __global__ void round_parameters(const float* parameters, number* rounded_parameters, int count) {
#if !defined(NUMBER_F32)
    int place = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (place >= count) return;
    float4 p = *(const float4*)(parameters + place);
    *(uint2*)(rounded_parameters + place) = make_uint2(rounded(p.x, p.y), rounded(p.z, p.w));
#endif
}

// A square of weights and where it goes when outputs and inputs change places; in numbers.
struct Square {
    int from, from_stride, to, to_stride;
};

#if defined(NUMBER_F32)
constexpr int SQUARE = 16;
#else
constexpr int SQUARE = 64;
#endif

// The weights that gradients of inputs are multiplied by. Sixteen bytes are read and written at a time.
constexpr int AT_ONCE = 16 / sizeof(number), CHUNKS = SQUARE / AT_ONCE;

extern "C" __global__ void transpose_weights(const number* weights, number* transposed, const Square* squares) {
    __shared__ number room[SQUARE][SQUARE + 4 / sizeof(number)];
    Square square = squares[blockIdx.x];
    for (int i = threadIdx.x; i < SQUARE * CHUNKS; i += blockDim.x) {
        uint4 read = *(const uint4*)(weights + square.from + (long long)(i / CHUNKS) * square.from_stride + i % CHUNKS * AT_ONCE);
        const number* numbers = (const number*)&read;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) room[i / CHUNKS][i % CHUNKS * AT_ONCE + k] = numbers[k];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SQUARE * CHUNKS; i += blockDim.x) {
        uint4 write;
        number* numbers = (number*)&write;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) numbers[k] = room[i % CHUNKS * AT_ONCE + k][i / CHUNKS];
        *(uint4*)(transposed + square.to + (long long)(i / CHUNKS) * square.to_stride + i % CHUNKS * AT_ONCE) = write;
    }
}
