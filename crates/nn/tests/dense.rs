//! Networks of policies and critics against PyTorch (fixtures and their maker in `torch_dense/`).
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use plaudit_core::Seed;
use plaudit_nn::dense::{
    Activation, Adam, AdamSettings, BatchNorm, Bias, Ensemble, EnsembleScratch, EnsembleTape, HeadInputs,
    Init, LayerSpec, Mlp, MlpSpec, Norm, Renorm, Scratch, Tape, TensorKind, clip_grad_norm, polyak,
};
use plaudit_nn::kernels::{Isa, Precision};
use serde::Deserialize;

/// Allowed distance, relative to the largest number of the tensor: float32 keeps seven digits, and sums of some
/// dozens of products in another order lose one.
const TOLERANCE: f32 = 2e-6;

#[derive(Deserialize)]
struct NetworkCase {
    name: String,
    inputs: usize,
    batch: usize,
    frozen: bool,
    layers: Vec<LayerCase>,
    params: Vec<HashMap<String, Vec<f32>>>,
    x: Vec<f32>,
    y: Vec<f32>,
    grad_out: Vec<f32>,
    grads: Vec<HashMap<String, Vec<f32>>>,
    grad_x: Vec<f32>,
    statistics: Vec<HashMap<String, Vec<f32>>>,
}

#[derive(Deserialize)]
struct LayerCase {
    width: usize,
    bias: bool,
    norm: bool,
    activation: String,
    #[expect(clippy::type_complexity, reason = "as the fixture has it")]
    input_norm: Option<(f32, f32, Option<(f32, f32)>)>,
}

impl LayerCase {
    fn spec(&self) -> LayerSpec {
        LayerSpec {
            width: self.width,
            bias: if self.bias { Bias::Zero } else { Bias::None },
            norm: if self.norm { Norm::Layer } else { Norm::None },
            activation: match self.activation.as_str() {
                "none" => Activation::None,
                "tanh" => Activation::Tanh,
                "relu" => Activation::Relu,
                other => panic!("{other}"),
            },
            init: Init::TorchDefault,
            input_norm: self.input_norm.map(|(eps, momentum, limits)| BatchNorm {
                eps,
                momentum,
                renorm: limits.map(|(r_max, d_max)| Renorm { r_max, d_max }),
            }),
        }
    }
}

impl NetworkCase {
    fn mlp(&self) -> Mlp {
        Mlp::new(MlpSpec { inputs: self.inputs, layers: self.layers.iter().map(LayerCase::spec).collect() })
    }

    fn params(&self, mlp: &Mlp) -> Vec<f32> {
        let mut params = vec![f32::NAN; mlp.len()];
        for tensor in mlp.tensors() {
            mlp.import(&mut params, &tensor, &self.params[tensor.layer][key(tensor.kind)]);
        }
        assert!(params.iter().all(|p| p.is_finite()), "{}: a tensor was forgotten", self.name);
        params
    }

    fn forward<'t>(&self, mlp: &Mlp, params: &[f32], tape: &'t mut Tape) -> &'t [f32] {
        match self.frozen {
            true => mlp.forward_eval(params, &self.x, self.batch, tape),
            false => mlp.forward(params, &self.x, self.batch, tape),
        }
    }
}

fn key(kind: TensorKind) -> &'static str {
    match kind {
        TensorKind::Weight => "weight",
        TensorKind::Bias => "bias",
        TensorKind::NormWeight => "norm_weight",
        TensorKind::NormBias => "norm_bias",
        TensorKind::InputNormWeight => "input_norm_weight",
        TensorKind::InputNormBias => "input_norm_bias",
        TensorKind::RunningMean => "running_mean",
        TensorKind::RunningVar => "running_var",
    }
}

fn networks() -> Vec<NetworkCase> {
    serde_json::from_str(include_str!("torch_dense/networks.json")).unwrap()
}

#[track_caller]
fn close(what: &str, ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let scale = theirs.iter().fold(1e-3f32, |m, x| m.max(x.abs()));
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= TOLERANCE * scale, "{what}[{i}]: {a}, PyTorch has {b} (scale {scale})");
    }
}

#[test]
fn forward_and_gradients_are_pytorchs() {
    for case in networks() {
        let (mlp, name) = (case.mlp(), &case.name);
        let mut params = case.params(&mlp);
        let mut tape = Tape::default();
        close(name, case.forward(&mlp, &params, &mut tape), &case.y);

        let mut grads = vec![0.0; mlp.len()];
        let mut grad_x = vec![f32::NAN; case.x.len()];
        mlp.backward(&params, &mut tape, &case.grad_out, &mut grads, Some(&mut grad_x));
        close(&format!("{name}: inputs"), &grad_x, &case.grad_x);
        for tensor in mlp.tensors().filter(|tensor| tensor.kind.is_trainable()) {
            let (kind, layer) = (key(tensor.kind), tensor.layer);
            close(&format!("{name}: {kind} {layer}"), &mlp.export(&grads, &tensor), &case.grads[layer][kind]);
        }
        assert!(
            grads[mlp.trainable_len()..].iter().all(|g| *g == 0.0),
            "{name}: statistics have no gradient"
        );

        if !case.frozen {
            mlp.update_statistics(&mut params, &tape);
        }
        for tensor in mlp.tensors().filter(|tensor| !tensor.kind.is_trainable()) {
            let (kind, layer) = (key(tensor.kind), tensor.layer);
            close(
                &format!("{name}: {kind} {layer}"),
                &mlp.export(&params, &tensor),
                &case.statistics[layer][kind],
            );
        }
    }
}

/// Gradients are added; those of inputs alone are the same numbers; inference gives what a frozen pass gives.
#[test]
fn the_ways_through_a_network_agree() {
    for case in networks() {
        let (mlp, name) = (case.mlp(), &case.name);
        let params = case.params(&mlp);
        let mut tape = Tape::default();
        case.forward(&mlp, &params, &mut tape);

        let mut once = vec![0.0; mlp.len()];
        mlp.backward(&params, &mut tape, &case.grad_out, &mut once, None);
        let mut twice = once.clone();
        mlp.backward(&params, &mut tape, &case.grad_out, &mut twice, None);
        close(&format!("{name}: twice"), &twice, &once.iter().map(|g| 2.0 * g).collect::<Vec<_>>());

        let mut again = once.clone();
        mlp.backward_same_params(&params, &mut tape, &case.grad_out, &mut again, None);
        assert_eq!(again, twice, "{name}: with what was made of the parameters");

        let mut anew = vec![f32::NAN; mlp.len()];
        mlp.backward_overwrite(&params, &mut tape, &case.grad_out, &mut anew, None);
        assert_eq!(anew, once, "{name}: over what was there");

        let mut grad_x = vec![f32::NAN; case.x.len()];
        mlp.backward_inputs(&params, &mut tape, &case.grad_out, &mut grad_x);
        close(&format!("{name}: inputs alone"), &grad_x, &case.grad_x);

        let frozen = mlp.forward_eval(&params, &case.x, case.batch, &mut tape).to_vec();
        let mut scratch = Scratch::default();
        assert_eq!(mlp.infer(&params, &case.x, case.batch, &mut scratch), frozen, "{name}");
    }
}

#[test]
fn heads_are_networks_of_their_own() {
    let case = &networks()[3];
    let head = case.mlp();
    let ensemble = Ensemble::new(head.clone(), 3);
    let params = ensemble.init(Seed::new(4));
    let mut tape = EnsembleTape::default();
    let outputs = ensemble.forward(&params, HeadInputs::Shared(&case.x), case.batch, &mut tape).to_vec();
    let grad_out: Vec<f32> = (0..outputs.len()).map(|i| (i as f32).sin()).collect();
    let mut grads = vec![0.0; ensemble.len()];
    let mut grad_x = vec![f32::NAN; case.x.len()];
    ensemble.backward(&params, &mut tape, &grad_out, &mut grads, Some(&mut grad_x));
    let mut alone_x = vec![f32::NAN; case.x.len()];
    ensemble.backward_inputs(&params, &mut tape, &grad_out, &mut alone_x);
    assert_eq!(alone_x, grad_x);

    let own_inputs: Vec<f32> = (0..3).flat_map(|_| case.x.clone()).collect();
    let mut own_tape = EnsembleTape::default();
    let own = ensemble.forward(&params, HeadInputs::PerHead(&own_inputs), case.batch, &mut own_tape).to_vec();
    assert_eq!(own, outputs);
    let mut own_grad_x = vec![f32::NAN; own_inputs.len()];
    ensemble.backward_inputs(&params, &mut own_tape, &grad_out, &mut own_grad_x);

    let mut sum = vec![0.0; case.x.len()];
    for i in 0..3 {
        let mut single = Tape::default();
        let params = &params[ensemble.range(i)];
        let part = |all: &[f32], each: usize| all[i * each..][..each].to_vec();
        assert_eq!(head.forward(params, &case.x, case.batch, &mut single), part(&outputs, case.batch));
        let mut single_grads = vec![0.0; head.len()];
        let mut single_x = vec![f32::NAN; case.x.len()];
        let grad_out = part(&grad_out, case.batch);
        head.backward(params, &mut single, &grad_out, &mut single_grads, Some(&mut single_x));
        assert_eq!(single_grads, grads[ensemble.range(i)]);
        assert_eq!(single_x, part(&own_grad_x, case.x.len()));
        sum.iter_mut().zip(&single_x).for_each(|(s, x)| *s += x);
    }
    close("sum over heads", &grad_x, &sum);

    let mut scratch = EnsembleScratch::default();
    let chosen = ensemble.infer(&params, &[2, 0], &case.x, case.batch, &mut scratch);
    assert_eq!(chosen[..case.batch], outputs[2 * case.batch..]);
    assert_eq!(chosen[case.batch..], outputs[..case.batch]);
}

/// Critics of which the smallest counts have no gradient in most rows; leaving those out changes nothing.
#[test]
fn rows_without_a_gradient_are_left_out() {
    let relu = LayerSpec { activation: Activation::Relu, ..LayerSpec::linear(96) };
    let tanh = LayerSpec { activation: Activation::Tanh, ..LayerSpec::linear(40) };
    let normed = LayerSpec { norm: Norm::Layer, ..relu.clone() };
    let batch = 150;
    let inputs: Vec<f32> = (0..batch * 7).map(|i| (i as f32 * 0.77).sin()).collect();
    for hidden in [[relu.clone(), tanh.clone()], [normed.clone(), tanh], [relu, normed]] {
        let layers = hidden.into_iter().chain([LayerSpec::linear(2)]).collect();
        let ensemble = Ensemble::new(Mlp::new(MlpSpec { inputs: 7, layers }), 3);
        let params = ensemble.init(Seed::new(8));
        let mut tape = EnsembleTape::default();
        let own: Vec<f32> = (0..3).flat_map(|_| inputs.clone()).collect();
        ensemble.forward(&params, HeadInputs::PerHead(&own), batch, &mut tape);
        // The second head has a few rows, and none in its second block.
        let counts = |head: usize, row: usize| match head {
            0 => true,
            1 => row < 64 && row % 9 == 2,
            _ => row % 3 == 1,
        };
        let grad_out: Vec<f32> = (0..3 * batch * 2)
            .map(|i| {
                let gradient = if i % 2 == 1 { (i as f32 * 0.3).cos() } else { 0.0 };
                if counts(i / (2 * batch), i / 2 % batch) { gradient } else { 0.0 }
            })
            .collect();
        let (mut grads, mut whole) = (vec![0.0; ensemble.len()], vec![f32::NAN; own.len()]);
        ensemble.backward(&params, &mut tape, &grad_out, &mut grads, Some(&mut whole));
        let mut some = vec![f32::NAN; own.len()];
        ensemble.backward_inputs(&params, &mut tape, &grad_out, &mut some);
        assert_eq!(some, whole);
        for (i, row) in some.chunks_exact(7).enumerate() {
            assert_eq!(row.iter().any(|gradient| *gradient != 0.0), counts(i / batch, i % batch), "row {i}");
        }
    }
}

/// Every way that a bias and an activation can follow a wide or narrow product, against plain sums.
#[test]
fn biases_and_activations_follow_products() {
    let batch = 37;
    let inputs: Vec<f32> = (0..batch * 19).map(|i| (i as f32 * 0.91).sin()).collect();
    for isa in Isa::all().into_iter().filter(|isa| isa.precision() == Precision::F32) {
        for (width, bias) in
            [3, 32, 33, 50, 64].into_iter().flat_map(|w| [(w, Bias::None), (w, Bias::TorchDefault)])
        {
            for activation in [Activation::None, Activation::Relu, Activation::Tanh] {
                let layer = LayerSpec { activation, bias, ..LayerSpec::linear(width) };
                let mlp = Mlp::with_isa(MlpSpec { inputs: 19, layers: vec![layer] }, isa);
                let params = mlp.init(Seed::new(9));
                let tensor = |kind| mlp.tensors().find(|tensor| tensor.kind == kind);
                let weights = mlp.export(&params, &tensor(TensorKind::Weight).unwrap());
                let biases =
                    tensor(TensorKind::Bias).map_or(vec![0.0; width], |bias| mlp.export(&params, &bias));
                let expected: Vec<f32> = (0..batch * width)
                    .map(|i| {
                        let row = inputs[i / width * 19..][..19].iter();
                        let weights = &weights[i % width * 19..];
                        let sum: f64 = row.zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                        let sum = sum + f64::from(biases[i % width]);
                        (match activation {
                            Activation::None => sum,
                            Activation::Relu => sum.max(0.0),
                            Activation::Tanh => sum.tanh(),
                        }) as f32
                    })
                    .collect();
                let mut tape = Tape::default();
                let what = format!("{isa:?}: {width} outputs, {bias:?}, {activation:?}");
                close(&what, mlp.forward(&params, &inputs, batch, &mut tape), &expected);
            }
        }
    }
}

#[derive(Deserialize)]
struct OptimiserCase {
    name: String,
    betas: [f32; 2],
    eps: f32,
    weight_decay: f32,
    clip: f32,
    rates: [f32; 2],
    start: [Vec<f32>; 2],
    gradients: Vec<[Vec<f32>; 2]>,
    norms: Vec<f32>,
    end: [Vec<f32>; 2],
}

#[test]
fn steps_of_optimisers_are_pytorchs() {
    let cases: Vec<OptimiserCase> =
        serde_json::from_str(include_str!("torch_dense/optimisers.json")).unwrap();
    for case in cases {
        let mut params = case.start.concat();
        let settings = AdamSettings { betas: case.betas, eps: case.eps, weight_decay: case.weight_decay };
        let mut adam = Adam::new(params.len(), settings);
        let first = case.start[0].len();
        let groups = [(0..first, case.rates[0]), (first..params.len(), case.rates[1])];
        for (gradients, norm) in case.gradients.iter().zip(&case.norms) {
            let mut gradients = gradients.concat();
            close(&case.name, &[clip_grad_norm(&mut gradients, case.clip)], &[*norm]);
            adam.step_groups(&mut params, &gradients, &groups);
        }
        close(&case.name, &params, &case.end.concat());
        assert_eq!(adam.step, 5);
    }
}

#[test]
fn one_group_is_a_plain_step() {
    let mut params = [[1.0f32, -2.0, 3.0]; 2];
    let mut adams = [Adam::new(3, AdamSettings::default()), Adam::new(3, AdamSettings::default())];
    adams[0].step(&mut params[0], &[0.1, 0.2, -0.3], 0.01);
    adams[1].step_groups(&mut params[1], &[0.1, 0.2, -0.3], &[(0..3, 0.01)]);
    assert_eq!(params[0], params[1]);
    // The first step of Adam is the learning rate, whatever the gradient.
    close("first step", &params[0], &[0.99, -2.01, 3.01]);
}

#[test]
fn targets_follow() {
    let mut target = [1.0, -1.0, 0.0];
    polyak(&mut target, &[3.0, -1.0, 10.0], 0.25);
    assert_eq!(target, [1.5, -1.0, 2.5]);
    polyak(&mut target, &[0.1, 0.2, 0.3], 1.0);
    assert_eq!(target, [0.1, 0.2, 0.3]);
    // As many as threads share.
    let (mut many, source): (Vec<f32>, Vec<f32>) = (0..50_001).map(|i| (i as f32, -(i as f32))).unzip();
    polyak(&mut many, &source, 0.25);
    assert!(many.iter().enumerate().all(|(i, target)| *target == 0.5 * i as f32));
}

#[test]
fn long_gradients_are_clipped_as_a_whole() {
    let gradients: Vec<f32> = (0..70_003).map(|i| (i as f32 * 0.37).sin()).collect();
    let norm = gradients.iter().map(|g| f64::from(*g) * f64::from(*g)).sum::<f64>().sqrt() as f32;
    let mut clipped = gradients.clone();
    close("norm", &[clip_grad_norm(&mut clipped, 2.0)], &[norm]);
    let scale = 2.0 / (norm + 1e-6);
    close("clipped", &clipped, &gradients.iter().map(|g| g * scale).collect::<Vec<_>>());
    let mut same = gradients.clone();
    clip_grad_norm(&mut same, 2.0 * norm);
    assert_eq!(same, gradients);
}

fn initial(inputs: usize, layer: LayerSpec) -> (Vec<f32>, Vec<f32>) {
    let mlp = Mlp::new(MlpSpec { inputs, layers: vec![layer] });
    let params = mlp.init(Seed::new(11));
    let mut tensors = mlp.tensors().map(|tensor| mlp.export(&params, &tensor));
    (tensors.next().unwrap(), tensors.next().unwrap_or_default())
}

#[test]
fn orthogonal_weights_are_orthogonal() {
    for (outputs, inputs) in [(8, 64), (64, 8), (50, 50)] {
        let init = Init::Orthogonal { gain: 2.0 };
        let (weights, bias) =
            initial(inputs, LayerSpec { init, bias: Bias::Zero, ..LayerSpec::linear(outputs) });
        assert!(bias.iter().all(|b| *b == 0.0));
        let few = outputs.min(inputs);
        let at = |vector: usize, i: usize| match outputs <= inputs {
            true => weights[vector * inputs + i],
            false => weights[i * inputs + vector],
        };
        for a in 0..few {
            for b in 0..few {
                let dot: f32 = (0..outputs.max(inputs)).map(|i| at(a, i) * at(b, i)).sum();
                let expected = if a == b { 4.0 } else { 0.0 };
                assert!((dot - expected).abs() < 2e-5, "{outputs}x{inputs}: {a}.{b} = {dot}");
            }
        }
    }
}

#[test]
fn initial_weights_have_the_spread_asked_for() {
    let (inputs, outputs) = (100, 400);
    // (rule, standard deviation, largest value); four standard errors of 40,000 samples are 1.5%.
    let cases = [
        (Init::KaimingNormalFanOut { gain: 5.0 / 3.0 }, 5.0 / 3.0 / 20.0, f32::INFINITY),
        (Init::XavierUniform { gain: 2.0 }, 2.0 * (2.0f32 / 500.0).sqrt(), 2.0 * (6.0f32 / 500.0).sqrt()),
        (Init::Normal { std: 0.02 }, 0.02, f32::INFINITY),
        (Init::TorchDefault, 0.1 / 3f32.sqrt(), 0.1),
    ];
    for (init, std, largest) in cases {
        let (weights, bias) = initial(inputs, LayerSpec { init: init.clone(), ..LayerSpec::linear(outputs) });
        let measured = (weights.iter().map(|w| w * w).sum::<f32>() / weights.len() as f32).sqrt();
        assert!((measured / std - 1.0).abs() < 0.015, "{init:?}: {measured} is not {std}");
        assert!(weights.iter().all(|w| w.abs() <= largest), "{init:?}");
        assert!(bias.iter().all(|b| b.abs() <= 0.1) && bias.iter().any(|b| b.abs() > 0.08), "{init:?}");
    }
}

#[test]
fn groups_of_rows_begin_by_their_own_rule() {
    let init = Init::Rows(vec![(2, Init::Normal { std: 1e-6 }), (3, Init::Orthogonal { gain: 1.0 })]);
    let (weights, _) = initial(4, LayerSpec { init, ..LayerSpec::linear(5) });
    assert!(weights[..8].iter().all(|w| w.abs() < 1e-4));
    let row_length: f32 = weights[8..12].iter().map(|w| w * w).sum();
    assert!((row_length - 1.0).abs() < 1e-5);
}

/// A network of every kind of layer, wide enough for several panels and deep enough for several blocks and tasks.
fn large(isa: Isa) -> (Mlp, Vec<f32>, usize) {
    let tanh = LayerSpec { activation: Activation::Tanh, ..LayerSpec::linear(256) };
    let normed = LayerSpec { norm: Norm::Layer, ..tanh.clone() };
    let crossq = LayerSpec { input_norm: Some(BatchNorm::crossq()), width: 70, ..tanh.clone() };
    let layers = vec![normed, tanh, crossq, LayerSpec { width: 3, ..LayerSpec::linear(3) }];
    let batch = 700;
    let inputs: Vec<f32> = (0..batch * 21).map(|i| (i as f32 * 0.618).sin() + (i % 7) as f32 * 0.1).collect();
    (Mlp::with_isa(MlpSpec { inputs: 21, layers }, isa), inputs, batch)
}

struct Everything {
    outputs: Vec<f32>,
    inferred: Vec<f32>,
    grads: Vec<f32>,
    grad_inputs: Vec<f32>,
}

impl Everything {
    fn of(heads: usize, isa: Isa) -> Self {
        let (mlp, inputs, batch) = large(isa);
        let ensemble = Ensemble::new(mlp, heads);
        let params = ensemble.init(Seed::new(3));
        let mut tape = EnsembleTape::default();
        let outputs = ensemble.forward(&params, HeadInputs::Shared(&inputs), batch, &mut tape).to_vec();
        let grad_out: Vec<f32> = (0..outputs.len()).map(|i| (i as f32 * 0.3).cos()).collect();
        let mut grads = vec![0.0; params.len()];
        let mut grad_inputs = vec![0.0; inputs.len()];
        ensemble.backward(&params, &mut tape, &grad_out, &mut grads, Some(&mut grad_inputs));
        let chosen: Vec<usize> = (0..heads).collect();
        let mut scratch = EnsembleScratch::default();
        let inferred = ensemble.infer(&params, &chosen, &inputs, batch, &mut scratch).to_vec();
        Self { outputs, inferred, grads, grad_inputs }
    }

    fn parts(&self) -> [(&'static str, &[f32]); 4] {
        let Self { outputs, inferred, grads, grad_inputs } = self;
        [("outputs", outputs), ("inferred", inferred), ("gradients", grads), ("of inputs", grad_inputs)]
    }
}

#[test]
fn threads_make_no_difference() {
    for heads in [1, 3] {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Everything::of(heads, Isa::best(Precision::F32)))
        };
        let one = with(1);
        for threads in [2, 3, 8] {
            for ((what, ours), (_, alone)) in with(threads).parts().into_iter().zip(one.parts()) {
                let same = ours.iter().zip(alone).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same && ours.len() == alone.len(), "{what} with {threads} threads, {heads} heads");
            }
        }
    }
}

#[test]
fn all_instructions_agree() {
    let expected = Everything::of(2, *Isa::all().last().unwrap());
    for isa in Isa::all().into_iter().filter(|isa| isa.precision() == Precision::F32) {
        for ((what, ours), (_, plain)) in Everything::of(2, isa).parts().into_iter().zip(expected.parts()) {
            // Sums of 700 products of four layers: rounding differs by some 1e-6 of the largest.
            let scale = plain.iter().fold(0f32, |m, x| m.max(x.abs()));
            let worst = ours.iter().zip(plain).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
            assert!(worst <= 5e-6 * scale, "{isa:?}: {what} differ by {worst} of {scale}");
        }
    }
}

#[test]
fn a_row_alone_is_a_row_of_a_batch() {
    let (mlp, inputs, batch) = large(Isa::best(Precision::F32));
    let params = mlp.init(Seed::new(5));
    let mut scratch = Scratch::default();
    let all = mlp.infer(&params, &inputs, batch, &mut scratch).to_vec();
    for rows in [1, 5, 13, 64, 100] {
        let some = mlp.infer(&params, &inputs[..rows * mlp.inputs()], rows, &mut scratch);
        assert_eq!(some, &all[..rows * mlp.outputs()]);
    }
}

#[test]
fn pieces_add_up_to_the_batch() {
    // A last piece of several groups of blocks, and one of a part of a group.
    for rest in [700, 250] {
        check_pieces(rest);
    }
}

fn check_pieces(rest: usize) {
    let tanh = LayerSpec { activation: Activation::Tanh, ..LayerSpec::linear(200) };
    let mlp = Mlp::new(MlpSpec { inputs: 30, layers: vec![tanh.clone(), tanh, LayerSpec::linear(2)] });
    let batch = 3 * mlp.micro_batch_rows() + rest;
    let inputs: Vec<f32> = (0..batch * 30).map(|i| (i as f32 * 0.7).sin()).collect();
    let targets: Vec<f32> = (0..batch * 2).map(|i| (i as f32 * 0.1).cos()).collect();
    let params = mlp.init(Seed::new(6));
    let difference = |outputs: &[f32], targets: &[f32], into: &mut [f32]| {
        into.iter_mut().zip(outputs).zip(targets).for_each(|((g, y), t)| *g = (y - t) / batch as f32);
    };

    let (mut tape, mut whole) = (Tape::default(), vec![0.0; mlp.len()]);
    let mut grad_out = vec![0.0; batch * 2];
    difference(mlp.forward(&params, &inputs, batch, &mut tape), &targets, &mut grad_out);
    mlp.backward(&params, &mut tape, &grad_out, &mut whole, None);

    let (mut pieces, mut seen) = (vec![0.0; mlp.len()], 0);
    mlp.forward_backward(&params, &inputs, &mut tape, &mut pieces, |rows, outputs, into| {
        assert_eq!(rows.start, seen);
        seen = rows.end;
        difference(outputs, &targets[rows.start * 2..rows.end * 2], into);
    });
    assert_eq!(seen, batch);
    assert_eq!(pieces, whole, "bit-exact");
}

/// Against double precision, over the whole range and beyond.
#[test]
fn tanh_is_precise() {
    let mlp = |isa| {
        let layer = LayerSpec { activation: Activation::Tanh, bias: Bias::None, ..LayerSpec::linear(1) };
        Mlp::with_isa(MlpSpec { inputs: 1, layers: vec![layer] }, isa)
    };
    let mut xs: Vec<f32> = (-200_000..200_000).map(|i| i as f32 * 6e-5).collect();
    xs.extend((1..100).map(|i| 10f32.powi(-i)));
    xs.extend([f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, 0.0, f32::NAN]);
    for isa in Isa::all().into_iter().filter(|isa| isa.precision() == Precision::F32) {
        let mut scratch = Scratch::default();
        let ys = mlp(isa).infer(&[1.0], &xs, xs.len(), &mut scratch);
        for (x, y) in xs.iter().zip(ys) {
            let exact = f64::from(*x).tanh();
            let error = (f64::from(*y) - exact).abs();
            let precise = error <= 1.5e-7 && error <= 4e-7 * exact.abs() && y.abs() <= 1.0;
            assert!(precise || (x.is_nan() && y.is_nan()), "{isa:?} tanh({x}) = {y}, {error} from {exact}");
        }
    }
}

/// Rounds to the nearest number with eight bits, even in ties.
fn rounded(x: f32) -> f64 {
    let bits = x.to_bits();
    f64::from(f32::from_bits(bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000))
}

/// Products of bfloat16 are exactly those of rounded numbers: the sums alone are rounded to single precision.
#[test]
fn hidden_products_in_bfloat16_are_those_of_rounded_numbers() {
    if Isa::best(Precision::Bf16).precision() != Precision::Bf16 {
        eprintln!("skipped: this CPU has no products of bfloat16");
        return;
    }
    // Odd widths and an odd last block, so that words have halves without a partner.
    let (inputs, width, batch) = (71, 99, 150);
    let layer = LayerSpec { bias: Bias::None, ..LayerSpec::linear(width) };
    let mlp = Mlp::new(MlpSpec { inputs, layers: vec![layer] }).with_precision(Precision::Bf16);
    let params = mlp.init(Seed::new(1));
    let weight = mlp.export(&params, &mlp.tensors().next().unwrap());
    let x: Vec<f32> = (0..batch * inputs).map(|i| (i as f32 * 0.37).sin()).collect();
    let grad: Vec<f32> = (0..batch * width).map(|i| (i as f32 * 0.73).cos()).collect();
    let product = |rows: usize, columns: usize, depth: usize, term: &dyn Fn(usize, usize, usize) -> f64| {
        let sum = |i: usize| (0..depth).map(|k| term(i / columns, i % columns, k)).sum::<f64>() as f32;
        (0..rows * columns).map(sum).collect::<Vec<f32>>()
    };
    let outputs = product(batch, width, inputs, &|r, o, k| {
        rounded(x[r * inputs + k]) * rounded(weight[o * inputs + k])
    });
    let grad_x = product(batch, inputs, width, &|r, i, k| {
        rounded(grad[r * width + k]) * rounded(weight[k * inputs + i])
    });
    let grad_w =
        product(width, inputs, batch, &|o, i, k| rounded(grad[k * width + o]) * rounded(x[k * inputs + i]));

    let mut tape = Tape::default();
    close("outputs", mlp.forward(&params, &x, batch, &mut tape), &outputs);
    close("inferred", mlp.infer(&params, &x, batch, &mut Scratch::default()), &outputs);
    let (mut grads, mut into) = (vec![0.0; mlp.len()], vec![0.0; x.len()]);
    mlp.backward(&params, &mut tape, &grad, &mut grads, Some(&mut into));
    close("of inputs", &into, &grad_x);
    close("of weights", &mlp.export(&grads, &mlp.tensors().next().unwrap()), &grad_w);
}

/// The whole of a network in bfloat16 stays near the one in single precision, and gradients point the same way.
#[test]
fn bfloat16_is_near_single_precision() {
    let tanh = LayerSpec { activation: Activation::Tanh, ..LayerSpec::linear(128) };
    let normed = LayerSpec { norm: Norm::Layer, ..tanh.clone() };
    let mlp =
        Mlp::new(MlpSpec { inputs: 20, layers: vec![tanh.clone(), normed, tanh, LayerSpec::linear(4)] });
    let ensemble = |precision| Ensemble::new(mlp.clone().with_precision(precision), 2);
    let params = ensemble(Precision::F32).init(Seed::new(8));
    let x: Vec<f32> = (0..200 * 20).map(|i| (i as f32 * 0.37).sin()).collect();
    let run = |precision| {
        let (ensemble, mut tape) = (ensemble(precision), EnsembleTape::default());
        let mut all = ensemble.forward(&params, HeadInputs::Shared(&x), 200, &mut tape).to_vec();
        let (mut grads, mut grad_x) = (vec![0.0; params.len()], vec![0.0; x.len()]);
        let grad_out: Vec<f32> = (0..all.len()).map(|i| (i as f32 * 0.3).cos()).collect();
        ensemble.backward(&params, &mut tape, &grad_out, &mut grads, Some(&mut grad_x));
        let mut scratch = EnsembleScratch::default();
        assert_eq!(ensemble.infer(&params, &[0, 1], &x, 200, &mut scratch), all);
        all.truncate(800);
        [all, grads, grad_x]
    };
    for (single, half) in run(Precision::F32).iter().zip(run(Precision::Bf16)) {
        let dot =
            |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        let cosine = dot(single, &half) / (dot(single, single) * dot(&half, &half)).sqrt();
        assert!(cosine > 0.9999, "{cosine}");
    }
}
