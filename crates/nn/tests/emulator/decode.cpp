// Runs the kernels of `decode.cu` on the CPU: the blocks one after the other, the threads of a block in turns that change where they wait
// for each other. What those kernels take from the sources before them is written anew here, without machine instructions.

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(threads)
#define LEAST (-INFINITY)

typedef unsigned short bf16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(16) Eight {
    u32 pair[4];
};
struct Index {
    int x, y, z;
};

static Index threadIdx, blockIdx, blockDim, gridDim;
static const int MOST_THREADS = 128, STACK = 64 << 10;
static ucontext_t scheduler, threads[MOST_THREADS];
static bool done[MOST_THREADS];
static int current;
static float shown[MOST_THREADS];
static std::function<void()> kernel;

static void __syncthreads() { swapcontext(&threads[current], &scheduler); }

static float __shfl_xor_sync(u32, float x, int step) {
    shown[current] = x;
    __syncthreads();
    float other = shown[current ^ step];
    __syncthreads();
    return other;
}

static int min(int a, int b) { return a < b ? a : b; }

static float as_float(u32 bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static float number(bf16 x) { return as_float((u32)x << 16); }

static u32 half(float x) {
    u32 bits;
    memcpy(&bits, &x, 4);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static u32 rounded(float first, float second) { return half(first) | half(second) << 16; }

static float power_of_two(float x) { return exp2f(x); }

static void unpack(const Eight& packed, float x[8]) {
    for (int i = 0; i < 8; i++) x[i] = number((bf16)(packed.pair[i / 2] >> (i % 2 * 16)));
}

#include "decode.cu"

static void thread_main() {
    kernel();
    done[current] = true;
    swapcontext(&threads[current], &scheduler);
}

static void launch(Index blocks, int count, std::function<void()> asked) {
    static std::vector<char> stacks(MOST_THREADS * STACK);
    kernel = asked;
    gridDim = blocks, blockDim = {count, 1, 1};
    for (int z = 0; z < blocks.z; z++)
        for (int y = 0; y < blocks.y; y++)
            for (int x = 0; x < blocks.x; x++) {
                blockIdx = {x, y, z};
                for (int i = 0; i < count; i++) {
                    getcontext(&threads[i]);
                    threads[i].uc_stack.ss_sp = &stacks[i * STACK];
                    threads[i].uc_stack.ss_size = STACK;
                    threads[i].uc_link = nullptr;
                    makecontext(&threads[i], thread_main, 0);
                    done[i] = false;
                }
                for (bool waiting = true; waiting;) {
                    waiting = false;
                    for (current = 0; current < count; current++) {
                        if (done[current]) continue;
                        threadIdx = {current, 0, 0};
                        swapcontext(&scheduler, &threads[current]);
                        waiting = waiting || !done[current];
                    }
                }
            }
}

// Both kernels, launched as `decode.rs` does.
extern "C" void decode(
    const bf16* q, int q_stride, const bf16* k, const bf16* v, int kv_stride, int heads, int group, const int* k_start, const int* k_len,
    int sequences, int splits, int keys_per_split, float scale, float* parts, bf16* out) {
    launch({splits, heads, sequences}, 128, [=] {
        attend_cached(q, q_stride, k, v, kv_stride, group, k_start, k_len, keys_per_split, scale, parts);
    });
    int joining = (TEXT_HALF + 31) / 32 * 32;
    launch({heads, sequences, 1}, joining < 128 ? joining : 128, [=] { join_splits(parts, splits, out, heads * 2 * TEXT_HALF); });
}
