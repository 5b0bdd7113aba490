//! Where the CPU is faster than the GPU beside it: what `device: auto` rests on (`bench/gpu/README.md`).
//!
//! ```text
//! cpu_or_gpu score     milliseconds of scoring images, and of opening a model until its first score
//! cpu_or_gpu train     milliseconds of a step of training an image classifier
//! cpu_or_gpu mlp       milliseconds of an update of an MLP: forward, backward, clipping, Adam
//! ```
//!
//! Times begin with numbers in the CPU's memory and end with results there; each is the median of calls within a moment.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for the terminal")]

use std::time::{Duration, Instant};

use plaudit_core::Seed;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Loss, Precision, Scorer, Trainer};
use plaudit_nn::dense::gpu::{
    ADAM_NUMBERS, AdamMemory, GpuKernels, GpuMlp, Params, Rows, WantedGradients, WeightGradients,
    adam_numbers,
};
use plaudit_nn::dense::{
    Activation, Adam, AdamSettings, LayerSpec, Mlp, MlpSpec, Tape, clip_grad_norm, with_spinning_threads,
};
use plaudit_nn::images::{ImageBatch, Pixels, ViewPixels};

const GPU: Device = Device::Cuda(0);

fn main() {
    println!("{} threads", std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    match std::env::args().nth(1).as_deref() {
        Some("score") => score(),
        Some("train") => train(),
        Some("mlp") => mlp(),
        _ => println!("cpu_or_gpu score|train|mlp"),
    }
}

/// How long calls are measured.
const MEASURED: Duration = Duration::from_millis(400);

/// Milliseconds of a call, after two that are not counted.
fn milliseconds(mut call: impl FnMut()) -> f64 {
    let mut timed = || {
        let start = Instant::now();
        call();
        start.elapsed().as_secs_f64() * 1e3
    };
    timed();
    timed();
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || start.elapsed() < MEASURED {
        times.push(timed());
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn settings(arch: Arch, side: usize, precision: Precision) -> ClassifierSettings {
    ClassifierSettings {
        arch,
        precision,
        image_size: [3, side, side],
        hidden_dim: Some(256),
        ..ClassifierSettings::default()
    }
}

fn images(side: usize, count: usize) -> Vec<u8> {
    let mut rng = Seed::new(3).rng();
    (0..count * side * side * 3).map(|_| rng.below(256) as u8).collect()
}

fn batch<'a>(settings: &'a ClassifierSettings, pixels: &'a [u8]) -> ImageBatch<'a> {
    let [_, side, _] = settings.image_size;
    let count = pixels.len() / (3 * side * side);
    let shape = [count, side, side, 3];
    ImageBatch::of(ViewPixels::from_shape(&settings.image_keys[0], Pixels::U8(pixels), shape)).unwrap()
}

fn score() {
    let networks =
        [(Arch::Resnet10, 64), (Arch::Resnet10, 128), (Arch::Resnet18, 128), (Arch::Resnet50, 224)];
    for (arch, side) in networks {
        let weights = Trainer::new(&settings(arch, side, Precision::Fp32), AdamW::default(), 7);
        let weights = weights.unwrap().weights().unwrap();
        for (device, precision) in [
            (Device::Cpu, Precision::Fp32),
            (Device::Cpu, Precision::Bf16),
            (GPU, Precision::Fp32),
            (GPU, Precision::Bf16),
        ] {
            let settings = settings(arch, side, precision);
            let one = images(side, 1);
            let start = Instant::now();
            let scorer = match Scorer::new(&settings, &weights, device) {
                Ok(scorer) => scorer,
                Err(error) => return println!("{device:?}: {error}"),
            };
            scorer.logits(&batch(&settings, &one)).unwrap();
            let opened = start.elapsed().as_secs_f64() * 1e3;
            let times = [1, 8, 64].map(|count| {
                let pixels = images(side, count);
                milliseconds(|| drop(scorer.logits(&batch(&settings, &pixels)).unwrap()))
            });
            println!(
                "score {} {side} {:?} {device:?}: opened {opened:.1}; 1, 8, 64 images: {:.3} {:.3} {:.3}",
                arch.name(),
                precision,
                times[0],
                times[1],
                times[2]
            );
        }
    }
}

fn train() {
    for (arch, side, count) in [
        (Arch::Resnet10, 64, 32),
        (Arch::Resnet10, 128, 32),
        (Arch::Resnet18, 128, 4),
        (Arch::Resnet18, 128, 32),
        (Arch::Resnet50, 128, 32),
    ] {
        for (device, precision) in
            [(Device::Cpu, Precision::Fp32), (GPU, Precision::Fp32), (GPU, Precision::Bf16)]
        {
            let settings = settings(arch, side, precision);
            let (pixels, start) = (images(side, count), Instant::now());
            let mut trainer = match Trainer::on(device, &settings, AdamW::default(), 7) {
                Ok(trainer) => trainer,
                Err(error) => return println!("{device:?}: {error}"),
            };
            let labels: Vec<f32> = (0..count).map(|i| (i % 2) as f32).collect();
            let mut step = || {
                let images = batch(&settings, &pixels);
                trainer.accumulate(&images, &labels, None, Loss::Bce, 1.0, Seed::new(1)).unwrap();
                trainer.step(1e-4, Some(1.0)).unwrap();
            };
            step();
            let opened = start.elapsed().as_secs_f64() * 1e3;
            let took = milliseconds(step);
            println!(
                "train {} {side} batch {count} {:?} {device:?}: first {opened:.1}; a step {took:.3}",
                arch.name(),
                precision
            );
        }
    }
}

fn stack(inputs: usize, hidden: &[usize], outputs: usize) -> Mlp {
    let hidden =
        hidden.iter().map(|width| LayerSpec { activation: Activation::Tanh, ..LayerSpec::linear(*width) });
    Mlp::new(MlpSpec { inputs, layers: hidden.chain([LayerSpec::linear(outputs)]).collect() })
}

fn mlp() {
    for (inputs, hidden, rows) in [
        (42, vec![256; 3], 256),
        (42, vec![256; 3], 1024),
        (42, vec![256; 3], 4096),
        (42, vec![256; 3], 16384),
        (42, vec![512; 3], 4096),
        (42, vec![1024; 3], 256),
        (42, vec![1024; 3], 4096),
    ] {
        let net = stack(inputs, &hidden, 8);
        let mut rng = Seed::new(3).rng();
        let x: Vec<f32> = (0..rows * inputs).map(|_| rng.normal() as f32).collect();
        let cpu = mlp_on_cpu(&net, &x);
        let gpu = mlp_on_gpu(&net, &x, rows);
        let found = gpu.map_or_else(
            |error| error.to_string(),
            |[whole, halves]| {
                format!(
                    "{whole:.3} as one graph, {halves:.3} with outputs and their gradients by way of the host"
                )
            },
        );
        println!(
            "mlp {inputs} to {} x {} to 8, {rows} rows: cpu {cpu:.3}; gpu {found}",
            hidden[0],
            hidden.len()
        );
    }
}

fn mlp_on_cpu(net: &Mlp, x: &[f32]) -> f64 {
    let mut params = net.init(Seed::new(1));
    let (mut grads, mut tape) = (vec![0.0; params.len()], Tape::default());
    let mut adam = Adam::new(params.len(), AdamSettings::default());
    milliseconds(|| {
        with_spinning_threads(|| {
            grads.fill(0.0);
            net.forward_backward(&params, x, &mut tape, &mut grads, |_, outputs, into| {
                into.copy_from_slice(outputs)
            });
            clip_grad_norm(&mut grads, 0.5);
            adam.step(&mut params, &grads, 3e-4);
        });
    })
}

/// As one graph, its outputs taken for their gradients; and with these made on the host, as losses of policies are.
fn mlp_on_gpu(net: &Mlp, x: &[f32], rows: usize) -> Result<[f64; 2], plaudit_nn::gpu::GpuError> {
    let k = &mut GpuKernels::open(0)?;
    let on_gpu = GpuMlp::new(k, net, 1, 1, rows)?;
    let mut floats = |count: usize| k.floats(count);
    let [params, grads, means, squares] =
        [floats(net.len())?, floats(net.len())?, floats(net.len())?, floats(net.len())?];
    let (numbers, norm, input) = (floats(ADAM_NUMBERS)?, floats(1)?, floats(x.len())?);
    let grad_output = floats(rows * net.outputs())?;
    k.write_all(&[
        (params, &net.init(Seed::new(1))),
        (means, &vec![0.0; net.len()]),
        (squares, &vec![0.0; net.len()]),
    ])?;
    let dense = |floats, width| Rows { floats, stride: width, outer: rows * width, inner: rows * width };
    let (x_rows, out_rows) = (dense(input, net.inputs()), dense(grad_output, net.outputs()));
    let of = |floats| Params { floats, inner: net.len() };
    let wanted =
        WantedGradients { weights: Some(WeightGradients { to: of(grads), add: false }), inputs: None };
    let memory = AdamMemory { params, grads, means, squares };
    let forward = |k: &mut GpuKernels| on_gpu.forward(k, of(params), x_rows, 1, rows);
    let update = |k: &mut GpuKernels, grad: Rows| {
        on_gpu.backward(k, of(params), x_rows, 1, rows, grad, &wanted)?;
        k.gradient_norm(grads, norm)?;
        k.adam_step(memory, numbers, norm)
    };
    let whole = k.record(|k| {
        forward(k)?;
        update(k, on_gpu.output())
    })?;
    let halves = [k.record(forward)?, k.record(|k| update(k, out_rows))?];
    let (mut step, mut outputs) = (0, vec![0.0; rows * net.outputs()]);
    let mut next_numbers = || {
        step += 1;
        adam_numbers(AdamSettings::default(), step, 3e-4, 0.5)
    };
    let as_one = milliseconds(|| {
        k.write_all(&[(input, x), (numbers, &next_numbers())]).unwrap();
        k.run(whole).unwrap();
        k.read(norm, &mut [0.0]).unwrap();
    });
    let by_host = milliseconds(|| {
        k.write_all(&[(input, x), (numbers, &next_numbers())]).unwrap();
        k.run(halves[0]).unwrap();
        k.read(on_gpu.output().floats, &mut outputs).unwrap();
        k.write(grad_output, &outputs).unwrap();
        k.run(halves[1]).unwrap();
        k.read(norm, &mut [0.0]).unwrap();
    });
    Ok([as_one, by_host])
}
