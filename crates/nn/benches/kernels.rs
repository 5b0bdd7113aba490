//! How quick each convolution of ResNet-18 is by itself: `cargo bench -p plaudit-nn --bench kernels -- [options]`.
//!
//! Options: `--image 128`, `--batch 1,8,64`, `--peak 118` (GFLOP/s of one core in single precision), `--train`, `--only
//! layer1`, `--seconds 0.3`. GFLOP/s are counted as if every multiplication of the plain convolution were done, so that
//! Winograd can be above the peak. `--tokens` measures what the layers of a language model are made of instead.
#![allow(clippy::print_stdout, reason = "a program for people")]

use plaudit_nn::kernels::adam::{self, AdamStep};
use plaudit_nn::kernels::attention::{self, AttentionShape};
use plaudit_nn::kernels::conv::{self, ConvShape, PackedConv};
use plaudit_nn::kernels::gemm::{Matrix, PackedRight};
use plaudit_nn::kernels::norm_rope_softmax::{self, LayerNormSaved};
use plaudit_nn::kernels::{Isa, Precision};
use std::time::{Duration, Instant};

#[global_allocator]
static MEMORY: plaudit_nn::alloc::CachingAllocator = plaudit_nn::alloc::CachingAllocator::new();

struct Options {
    image: usize,
    batches: Vec<usize>,
    peak: f64,
    train: bool,
    tokens: bool,
    only: String,
    seconds: f64,
}

impl Options {
    fn from_words(mut words: impl Iterator<Item = String>) -> Self {
        let mut options = Self {
            image: 128,
            batches: vec![1, 8, 64],
            peak: 118.0,
            train: false,
            tokens: false,
            only: String::new(),
            seconds: 0.3,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().expect("a value after each option");
            match word.as_str() {
                "--image" => options.image = value().parse().expect("a number of pixels"),
                "--batch" => {
                    options.batches =
                        value().split(',').map(|n| n.parse().expect("numbers of images")).collect();
                }
                "--peak" => options.peak = value().parse().expect("GFLOP/s"),
                "--only" => options.only = value(),
                "--seconds" => options.seconds = value().parse().expect("seconds"),
                "--train" => options.train = true,
                "--tokens" => options.tokens = true,
                _ => {}
            }
        }
        options
    }
}

/// The convolutions of ResNet-18 that differ, and how often each occurs.
fn layers(image: usize) -> Vec<(&'static str, usize, ConvShape)> {
    let layer = |size: usize, channels: [usize; 2], [kernel, stride, padding]: [usize; 3]| {
        let [in_channels, out_channels] = channels;
        ConvShape { batch: 1, height: size, width: size, in_channels, out_channels, kernel, stride, padding }
    };
    let [a, b, c, d] = [4, 8, 16, 32].map(|part| image / part);
    vec![
        ("conv1 7x7/2", 1, layer(image, [3, 64], [7, 2, 3])),
        ("layer1 3x3", 4, layer(a, [64, 64], [3, 1, 1])),
        ("layer2 3x3/2", 1, layer(a, [64, 128], [3, 2, 1])),
        ("layer2 1x1/2", 1, layer(a, [64, 128], [1, 2, 0])),
        ("layer2 3x3", 3, layer(b, [128, 128], [3, 1, 1])),
        ("layer3 3x3/2", 1, layer(b, [128, 256], [3, 2, 1])),
        ("layer3 1x1/2", 1, layer(b, [128, 256], [1, 2, 0])),
        ("layer3 3x3", 3, layer(c, [256, 256], [3, 1, 1])),
        ("layer4 3x3/2", 1, layer(c, [256, 512], [3, 2, 1])),
        ("layer4 1x1/2", 1, layer(c, [256, 512], [1, 2, 0])),
        ("layer4 3x3", 3, layer(d, [512, 512], [3, 1, 1])),
    ]
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i.wrapping_mul(2_654_435_761) >> 7) % 1000) as f32 / 1000.0 - 0.5).collect()
}

/// Milliseconds of the middle run.
fn time(seconds: f64, mut work: impl FnMut()) -> f64 {
    work();
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs_f64(seconds) || times.len() < 5 {
        let start = Instant::now();
        work();
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

struct Sum {
    milliseconds: f64,
    gflop: f64,
}

fn report(sum: &mut Sum, name: &str, what: &str, times: usize, gflop: f64, milliseconds: f64, peak: f64) {
    let rate = gflop / milliseconds * 1e3;
    println!(
        "{name:14} {what:12} x{times} {milliseconds:8.3} ms {rate:7.0} GFLOP/s {:4.0} %",
        rate / peak * 100.0
    );
    sum.milliseconds += milliseconds * times as f64;
    sum.gflop += gflop * times as f64;
}

fn total(name: &str, sum: &Sum, peak: f64) {
    let rate = sum.gflop / sum.milliseconds * 1e3;
    println!("{name}: {:.2} ms, {rate:.0} GFLOP/s, {:.0} %\n", sum.milliseconds, rate / peak * 100.0);
}

fn score(options: &Options, batch: usize, precision: Precision, peak: f64) {
    let mut sum = Sum { milliseconds: 0.0, gflop: 0.0 };
    for (name, times, shape) in layers(options.image) {
        let shape = ConvShape { batch, ..shape };
        if !name.contains(&options.only) {
            continue;
        }
        let ConvShape { kernel, stride, padding, in_channels, out_channels, height, width, .. } = shape;
        let weights = numbers(shape.weights_len());
        let bias = numbers(out_channels);
        let conv =
            PackedConv::new(kernel, stride, padding, in_channels, out_channels, &weights, &bias, precision);
        let input = numbers(shape.input_len());
        // Every other convolution with stride 1 has a shortcut to add.
        let residual = (stride == 1).then(|| numbers(shape.output_len()));
        let mut output = vec![0.0; shape.output_len()];
        let milliseconds = time(options.seconds, || {
            conv.run(&input, batch, height, width, residual.as_deref(), true, &mut output);
        });
        report(&mut sum, name, &format!("{precision:?} b{batch}"), times, gflop(&shape), milliseconds, peak);
    }
    total(&format!("forward, batch {batch}, {precision:?}"), &sum, peak);
}

fn train(options: &Options, batch: usize, precision: Precision, peak: f64) {
    let mut sums = [(); 3].map(|()| Sum { milliseconds: 0.0, gflop: 0.0 });
    for (name, times, shape) in layers(options.image) {
        let shape = ConvShape { batch, ..shape };
        if !name.contains(&options.only) {
            continue;
        }
        let (input, weights) = (numbers(shape.input_len()), numbers(shape.weights_len()));
        let grad_output = numbers(shape.output_len());
        let mut output = vec![0.0; shape.output_len()];
        let (mut grad_input, mut grad_weights) = (vec![0.0; input.len()], vec![0.0; weights.len()]);
        let saved = conv::forward(&shape, precision, &input, &weights, &mut output);
        let forward = time(options.seconds, || {
            conv::forward(&shape, precision, &input, &weights, &mut output);
        });
        let wants_grad = in_place(name);
        let backward = time(options.seconds, || {
            let grad_input = wants_grad.then_some(&mut grad_input[..]);
            conv::backward(
                &shape,
                &input,
                &weights,
                &saved,
                &grad_output,
                grad_input,
                Some(&mut grad_weights),
            );
        });
        let flop = gflop(&shape);
        report(&mut sums[0], name, &format!("{precision:?} fwd"), times, flop, forward, peak);
        let both = if wants_grad { 2.0 } else { 1.0 };
        report(&mut sums[1], name, &format!("{precision:?} bwd"), times, both * flop, backward, peak);
        sums[2].milliseconds += (forward + backward) * times as f64;
        sums[2].gflop += (1.0 + both) * flop * times as f64;
    }
    for (name, sum) in ["forward", "backward", "both"].iter().zip(&sums) {
        total(&format!("training, batch {batch}, {precision:?}, {name}"), sum, peak);
    }
}

/// Sizes of a layer of Qwen3-VL's text model, and of its vision model where a norm or an activation is only there.
const TOKENS: usize = 256;
const HIDDEN: usize = 2048;
const INNER: usize = 6144;
const VISION: usize = 1024;

fn tokens(options: &Options) {
    let measure = |name: &str, gflop: f64, work: &mut dyn FnMut()| {
        if name.contains(&options.only) {
            let milliseconds = time(options.seconds, work);
            println!("{name:28} {milliseconds:8.3} ms {:7.0} GFLOP/s", gflop / milliseconds * 1e3);
        }
    };
    for (tokens, precision) in [(TOKENS, Precision::F32), (TOKENS, Precision::Bf16), (1, Precision::Bf16)] {
        let (x, weights) = (numbers(tokens * HIDDEN), numbers(INNER * HIDDEN));
        let mut output = vec![0.0; tokens * INNER];
        let right = PackedRight::new(Isa::best(precision), Matrix::new(&weights, INNER, HIDDEN));
        let gflop = 2e-9 * (tokens * HIDDEN * INNER) as f64;
        measure(&format!("linear {precision:?} t{tokens}"), gflop, &mut || {
            right.multiply(Matrix::new(&x, tokens, HIDDEN), None, &mut output);
        });
    }
    products(&measure);
    rows(&measure);
    let heads = |tokens: usize, heads, kv_heads, width, causal| AttentionShape {
        batch: 2,
        tokens,
        keys: tokens,
        heads,
        kv_heads,
        width,
        causal,
    };
    for (name, shape) in
        [("text", heads(TOKENS, 16, 8, 128, true)), ("vision", heads(TOKENS, 16, 16, 64, false))]
    {
        let (queries, keys) = (numbers(shape.queries_len()), numbers(shape.keys_len()));
        let qkv = [&queries[..], &keys, &keys];
        let (mut output, mut probs) = (vec![0.0; queries.len()], vec![0.0; shape.probs_len()]);
        measure(&format!("attention {name}"), 0.0, &mut || {
            attention::forward(&shape, qkv, None, &mut output, Some(&mut probs));
        });
        measure(&format!("attention {name} backward"), 0.0, &mut || {
            let _ = attention::backward(&shape, qkv, &probs, &output);
        });
    }
}

/// Times something: its name, its FLOP or bytes, and what it does.
type Measure<'a> = dyn Fn(&str, f64, &mut dyn FnMut()) + 'a;

/// Products as training has them: both sides change.
fn products(measure: &Measure<'_>) {
    let (x, weights, gradient) =
        (numbers(TOKENS * HIDDEN), numbers(HIDDEN * HIDDEN), numbers(TOKENS * HIDDEN));
    let isa = Isa::best(Precision::F32);
    let gflop = 2e-9 * (TOKENS * HIDDEN * HIDDEN) as f64;
    let (x, weights, gradient) = (
        Matrix::new(&x, TOKENS, HIDDEN),
        Matrix::new(&weights, HIDDEN, HIDDEN),
        Matrix::new(&gradient, TOKENS, HIDDEN),
    );
    let (mut rows, mut square) = (vec![0.0; TOKENS * HIDDEN], vec![0.0; HIDDEN * HIDDEN]);
    measure("product forward", gflop, &mut || {
        PackedRight::new(isa, weights).multiply(x, None, &mut rows);
    });
    measure("product of input", gflop, &mut || {
        PackedRight::new(isa, weights.transposed()).multiply(gradient, None, &mut rows);
    });
    measure("product of weights", gflop, &mut || {
        PackedRight::new(isa, x.transposed()).multiply(gradient.transposed(), None, &mut square);
    });
}

/// What happens between products, and the optimiser.
fn rows(measure: &Measure<'_>) {
    let (x, gradient) = (numbers(TOKENS * INNER), numbers(TOKENS * INNER));
    let (scale, shift) = (numbers(HIDDEN), numbers(VISION));
    let mut output = vec![0.0; TOKENS * INNER];
    let (mut hidden, vision) = (vec![0.0; TOKENS * HIDDEN], 2 * TOKENS * VISION);
    measure("rms_norm", 0.0, &mut || {
        let _ = norm_rope_softmax::rms_norm(&x[..TOKENS * HIDDEN], &scale, 1e-6, &mut hidden);
    });
    let inverse = vec![1.0; TOKENS];
    measure("rms_norm backward", 0.0, &mut || {
        let (x, gradient) = (&x[..TOKENS * HIDDEN], &gradient[..TOKENS * HIDDEN]);
        let _ = norm_rope_softmax::rms_norm_backward(x, &scale, &inverse, gradient);
    });
    measure("layer_norm", 0.0, &mut || {
        let affine = [&scale[..VISION], &shift];
        norm_rope_softmax::layer_norm(&x[..vision], affine, 1e-6, &mut output[..vision], false);
    });
    let saved = LayerNormSaved { hat: numbers(vision), inv_std: vec![1.0; 2 * TOKENS] };
    measure("layer_norm backward", 0.0, &mut || {
        let _ = norm_rope_softmax::layer_norm_backward(&scale[..VISION], &saved, &gradient[..vision]);
    });
    let angles = numbers(TOKENS * 64);
    measure("rope", 0.0, &mut || {
        let x = &x[..TOKENS * HIDDEN];
        norm_rope_softmax::rope(x, HIDDEN / 128, [&angles, &angles], 64, false, &mut hidden);
    });
    measure("swiglu", 0.0, &mut || norm_rope_softmax::swiglu(&x, &gradient, &mut output));
    measure("swiglu backward", 0.0, &mut || {
        let _ = norm_rope_softmax::swiglu_backward(&x, &gradient, &gradient);
    });
    measure("gelu", 0.0, &mut || norm_rope_softmax::gelu(&x, &mut output));
    measure("gelu backward", 0.0, &mut || {
        let _ = norm_rope_softmax::gelu_backward(&x, &gradient);
    });
    let (mut means, mut squares) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    let step = AdamStep {
        learning_rate: 1e-4,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.01,
        step: 1,
        grad_scale: 1.0,
    };
    measure("adam", 0.0, &mut || adam::step(&step, &mut output, &gradient, &mut means, &mut squares));
    measure("sum of squares", 0.0, &mut || {
        std::hint::black_box(adam::sum_of_squares(&gradient));
    });
}

/// Images need no gradient.
fn in_place(name: &str) -> bool {
    !name.starts_with("conv1")
}

fn gflop(shape: &ConvShape) -> f64 {
    2e-9 * (shape.output_len() * shape.kernel * shape.kernel * shape.in_channels) as f64
}

fn main() {
    let options = Options::from_words(std::env::args().skip(1));
    let threads = rayon::current_num_threads();
    let peak = options.peak * threads as f64;
    println!("{threads} threads, peak {peak:.0} GFLOP/s in single precision\n");
    // Inside the pool, as a network runs: handing work in from outside costs a wake-up each time.
    plaudit_nn::dense::with_spinning_threads(|| {
        if options.tokens {
            return tokens(&options);
        }
        for &batch in &options.batches {
            if options.train {
                train(&options, batch, Precision::F32, peak);
                train(&options, batch, Precision::Bf16, peak);
            } else {
                score(&options, batch, Precision::F32, peak);
                score(&options, batch, Precision::Bf16, peak);
            }
        }
    });
}
