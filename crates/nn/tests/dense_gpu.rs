//! Networks on a GPU against the same networks on the CPU: outputs and gradients, by an emulation of the kernels.

#![allow(clippy::unwrap_used)]
#![allow(unsafe_code, clippy::print_stderr)] // the emulator is a library of C++

mod emulator;

use emulator::emulated;
use plaudit_core::{FrameShape, Rng, Seed};
use plaudit_nn::dense::encoder::{ConvEncoder, ConvEncoderSpec, ConvLayer, ConvReadout, ConvTape};
use plaudit_nn::dense::gpu::{
    ADAM_NUMBERS, AdamMemory, GpuConvEncoder, GpuKernels, GpuMlp, InputGradient, Params, Rows,
    WantedGradients, WeightGradients, adam_numbers,
};
use plaudit_nn::dense::{
    Activation, Adam, AdamSettings, Bias, Ensemble, EnsembleTape, HeadInputs, LayerSpec, Mlp, MlpSpec, Norm,
    clip_grad_norm, polyak,
};
use plaudit_nn::kernels::Precision;

/// Largest difference, relative to the largest number: both sides round sums of single precision, in other orders.
const TOLERANCE: f32 = 2e-6;

fn numbers(rng: &mut Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.normal() as f32).collect()
}

fn close(what: &str, ours: &[f32], expected: &[f32]) {
    assert_eq!(ours.len(), expected.len(), "{what}");
    let most = expected.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let off = ours.iter().zip(expected).fold(0.0f32, |off, (a, b)| off.max((a - b).abs()));
    assert!(off <= TOLERANCE * most, "{what}: {off} off, of {most}");
    assert!(most > 0.0, "{what}: nothing to compare");
}

fn put(kernels: &mut GpuKernels, values: &[f32]) -> plaudit_nn::dense::gpu::Floats {
    let floats = kernels.floats(values.len()).unwrap();
    kernels.write(floats, values).unwrap();
    floats
}

fn get(kernels: &mut GpuKernels, floats: plaudit_nn::dense::gpu::Floats) -> Vec<f32> {
    let mut values = vec![0.0; floats.len()];
    kernels.read(floats, &mut values).unwrap();
    values
}

/// Three layers of all kinds: norms and tanh, ReLU, a narrow output; widths that fill no tile.
fn mlp() -> Mlp {
    let layer =
        |width, norm, activation, bias| LayerSpec { norm, activation, bias, ..LayerSpec::linear(width) };
    let layers = vec![
        layer(45, Norm::Layer, Activation::Tanh, Bias::TorchDefault),
        layer(70, Norm::None, Activation::Relu, Bias::None),
        layer(3, Norm::None, Activation::None, Bias::TorchDefault),
    ];
    Mlp::new(MlpSpec { inputs: 37, layers })
}

#[test]
fn an_ensemble_has_the_outputs_and_gradients_of_the_cpu() {
    let Some(mut kernels) = emulated() else { return };
    let (heads, batch, ensemble) = (2, 70, Ensemble::new(mlp(), 2));
    let (inputs, outputs) = (ensemble.head().inputs(), ensemble.head().outputs());
    let mut rng = Seed::new(3).rng();
    let mut params = ensemble.init(Seed::new(1));
    params.iter_mut().for_each(|param| *param += 0.1 * rng.normal() as f32);
    let (x, grad_out) = (numbers(&mut rng, batch * inputs), numbers(&mut rng, heads * batch * outputs));
    let mut tape = EnsembleTape::default();
    let y = ensemble.forward(&params, HeadInputs::Shared(&x), batch, &mut tape).to_vec();
    let (mut grads, mut grad_x) = (vec![0.0; params.len()], vec![0.0; x.len()]);
    ensemble.backward(&params, &mut tape, &grad_out, &mut grads, Some(&mut grad_x));

    let k = &mut kernels;
    let net = GpuMlp::new(k, ensemble.head(), 1, heads, batch).unwrap();
    let inner = ensemble.head().len();
    let on_gpu = Params { floats: put(k, &params), inner };
    let gradients = Params { floats: put(k, &vec![0.0; params.len()]), inner };
    // Rows further apart than they are wide, as part of something wider.
    let stride = inputs + 3;
    let wide: Vec<f32> = x.chunks_exact(inputs).flat_map(|row| [row, &[9.0; 3]].concat()).collect();
    let input = Rows { floats: put(k, &wide), stride, outer: 0, inner: 0 };
    net.forward(k, on_gpu, input, 1, batch).unwrap();
    let gpu_y = get(k, net.output().floats);
    close("outputs", &gpu_y, &y);

    let grad_output = Rows { floats: put(k, &grad_out), stride: outputs, outer: 0, inner: batch * outputs };
    let each = Rows {
        floats: put(k, &vec![0.0; heads * batch * inputs]),
        stride: inputs,
        outer: 0,
        inner: batch * inputs,
    };
    let wanted = WantedGradients {
        weights: Some(WeightGradients { to: gradients, add: false }),
        inputs: Some(InputGradient { to: each, columns: 0..inputs, relu: None, add: false }),
    };
    net.backward(k, on_gpu, input, 1, batch, grad_output, &wanted).unwrap();
    close("gradients", &get(k, gradients.floats), &grads);
    let sum = Rows { floats: put(k, &vec![0.0; x.len()]), stride: inputs, outer: 0, inner: 0 };
    k.sum_groups(each, heads, sum, batch, 0..inputs).unwrap();
    close("gradients of inputs", &get(k, sum.floats), &grad_x);

    // Once more, added; and the gradients of some inputs alone.
    let some = Rows { floats: put(k, &vec![0.0; heads * batch * inputs]), ..each };
    let wanted = WantedGradients {
        weights: Some(WeightGradients { to: gradients, add: true }),
        inputs: Some(InputGradient { to: some, columns: 33..inputs, relu: None, add: true }),
    };
    net.backward(k, on_gpu, input, 1, batch, grad_output, &wanted).unwrap();
    let twice: Vec<f32> = grads.iter().map(|grad| 2.0 * grad).collect();
    close("gradients added", &get(k, gradients.floats), &twice);
    let (all, some) = (get(k, each.floats), get(k, some.floats));
    for (all, some) in all.chunks_exact(inputs).zip(some.chunks_exact(inputs)) {
        assert!(some[..33].iter().all(|grad| *grad == 0.0) && some[33..] == all[33..]);
    }
}

/// A small encoder whose sizes fill no tile, with strides that leave pixels over.
fn encoder(readout: ConvReadout) -> ConvEncoder {
    let layer = |channels, kernel, stride| ConvLayer { channels, kernel, stride };
    ConvEncoder::new(ConvEncoderSpec {
        height: 20,
        width: 17,
        channels: 3,
        layers: vec![layer(8, 3, 2), layer(36, 3, 2), layer(5, 2, 1)],
        readout,
        outputs: 12,
        precision: Precision::F32,
    })
}

#[test]
fn encoders_have_the_outputs_and_gradients_of_the_cpu() {
    let Some(mut kernels) = emulated() else { return };
    for readout in [ConvReadout::Keypoints, ConvReadout::Flatten] {
        compare_encoders(&mut kernels, readout);
    }
}

/// Two cameras at two moments; gradients of the first moment.
fn compare_encoders(k: &mut GpuKernels, readout: ConvReadout) {
    let encoder = encoder(readout);
    let (cameras, moments, n) = (2, 2, 5);
    let (len, outputs, bytes) = (encoder.len(), encoder.outputs(), encoder.inputs());
    let mut rng = Seed::new(5).rng();
    let mut params: Vec<f32> = (0..cameras).flat_map(|camera| encoder.init(Seed::new(camera))).collect();
    params.iter_mut().for_each(|param| *param += 0.05 * rng.normal() as f32);
    let images: Vec<u8> = (0..moments * 2 * n * bytes).map(|_| rng.below(256) as u8).collect();
    let stride = cameras as usize * outputs + 4;
    let grad_joined = numbers(&mut rng, n * stride);

    let joined = k.floats(moments * n * stride).unwrap();
    let output = Rows { floats: joined, stride, outer: n * stride, inner: outputs };
    let net = GpuConvEncoder::new(k, &encoder, [moments, 2, n], output, true).unwrap();
    let shape = FrameShape { height: 20, width: 17, channels: 3 };
    let (there, centered) = (k.bytes(images.len()).unwrap(), k.floats(images.len()).unwrap());
    k.write_bytes(there, &[&images[..100], &images[100..]]).unwrap();
    k.center_images(there, None, moments * 2 * n, shape, centered).unwrap();
    let input = Rows { floats: centered, stride: bytes, outer: 2 * n * bytes, inner: n * bytes };
    let on_gpu = Params { floats: put(k, &params), inner: len };
    net.forward(k, on_gpu, input, moments, n).unwrap();
    let gradients = Params { floats: put(k, &vec![0.0; params.len()]), inner: len };
    let grad_output = Rows { floats: put(k, &grad_joined), stride, outer: 0, inner: outputs };
    let graph = k
        .record(|k| {
            let add = WeightGradients { to: gradients, add: true };
            net.backward(k, on_gpu, input, n, grad_output, add)
        })
        .unwrap();
    k.run(graph).unwrap();
    k.run(graph).unwrap();
    let (ours, our_grads) = (get(k, joined), get(k, gradients.floats));

    let mut tape = ConvTape::default();
    for moment in 0..moments {
        for camera in 0..2 {
            let params = &params[camera * len..(camera + 1) * len];
            let images = &images[(moment * 2 + camera) * n * bytes..][..n * bytes];
            let column = |rows: &[f32]| -> Vec<f32> {
                let rows =
                    rows.chunks_exact(stride).map(|row| &row[camera * outputs..(camera + 1) * outputs]);
                rows.flatten().copied().collect()
            };
            let ours = column(&ours[moment * n * stride..(moment + 1) * n * stride]);
            let expected = encoder.forward(params, images, n, &mut tape);
            close(&format!("{readout:?}, outputs of {moment} {camera}"), &ours, expected);
            if moment == 0 {
                let mut grads = vec![0.0; len];
                encoder.backward(params, &mut tape, &column(&grad_joined), &mut grads);
                grads.iter_mut().for_each(|grad| *grad *= 2.0);
                for tensor in encoder.tensors() {
                    let ours = encoder.export(&our_grads[camera * len..(camera + 1) * len], &tensor);
                    close(
                        &format!("{readout:?}, {:?} of {camera}", tensor.part),
                        &ours,
                        &encoder.export(&grads, &tensor),
                    );
                }
            }
        }
    }
}

#[test]
fn images_are_shifted_as_asked() {
    let Some(mut kernels) = emulated() else { return };
    let (shape, k) = (FrameShape { height: 3, width: 4, channels: 2 }, &mut kernels);
    let image: Vec<u8> = (0..24).collect();
    let (bytes, shifts, to) = (k.bytes(48).unwrap(), k.ints(4).unwrap(), k.floats(48).unwrap());
    k.write_bytes(bytes, &[&image, &image]).unwrap();
    k.write_ints(shifts, &[-1, 2, 9, 0]).unwrap();
    k.center_images(bytes, Some(shifts), 2, shape, to).unwrap();
    let ours = get(k, to);
    let at = |y: usize, x: usize| [image[(y * 4 + x) * 2], image[(y * 4 + x) * 2 + 1]];
    let first = [0, 0, 1].map(|y| [2, 3, 3, 3].map(|x| at(y, x))).concat().concat();
    let second = [2, 2, 2].map(|y| [0, 1, 2, 3].map(|x| at(y, x))).concat().concat();
    let expected: Vec<f32> =
        [first, second].concat().iter().map(|byte| f32::from(*byte) / 255.0 - 0.5).collect();
    assert_eq!(ours, expected);
}

#[test]
fn optimisers_take_the_steps_of_the_cpu() {
    let Some(mut kernels) = emulated() else { return };
    let k = &mut kernels;
    let (mut rng, len) = (Seed::new(8).rng(), 1000);
    let settings = AdamSettings { weight_decay: 0.01, ..AdamSettings::default() };
    let (mut params, mut adam) = (numbers(&mut rng, len), Adam::new(len, settings));
    let start = params.clone();
    let memory = AdamMemory {
        params: put(k, &params),
        grads: k.floats(len).unwrap(),
        means: k.floats(len).unwrap(),
        squares: k.floats(len).unwrap(),
    };
    let (step, norm, tau) = (k.floats(ADAM_NUMBERS).unwrap(), k.floats(1).unwrap(), put(k, &[0.25]));
    for (number, clip) in [(1, 1.0), (2, 1e6), (3, 0.5)] {
        let mut grads = numbers(&mut rng, len);
        k.write(memory.grads, &grads).unwrap();
        k.write(step, &adam_numbers(settings, number, 3e-3, clip)).unwrap();
        k.gradient_norm(memory.grads, norm).unwrap();
        k.adam_step(memory, step, norm).unwrap();
        close("norm", &get(k, norm), &[clip_grad_norm(&mut grads, clip)]);
        adam.step(&mut params, &grads, 3e-3);
        close("parameters", &get(k, memory.params), &params);
        close("second moments", &get(k, memory.squares), &adam.v);
    }
    k.write(memory.grads, &[f32::NAN]).unwrap();
    k.gradient_norm(memory.grads, norm).unwrap();
    k.adam_step(memory, step, norm).unwrap();
    assert!(get(k, norm)[0].is_nan());
    close("nothing moves without a number to move by", &get(k, memory.params), &params);

    let target = put(k, &start);
    let mut expected = start;
    k.follow(target, memory.params, tau).unwrap();
    polyak(&mut expected, &params, 0.25);
    close("target", &get(k, target), &expected);
}
