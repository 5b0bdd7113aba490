//! Soft actor-critic against PyTorch: samples, losses, gradients, optimisers and targets (`torch_sac/make_fixtures.py`).

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping
#![allow(unsafe_code, clippy::print_stderr)] // the emulator of a GPU is a library of C++

#[path = "../../nn/tests/emulator/mod.rs"]
mod emulator;

use std::path::{Path, PathBuf};

use plaudit_core::{ActionSpace, End, FrameShape, Schedule, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::encoder::{ConvLayer, ConvReadout};
use plaudit_nn::dense::gpu::GpuKernels;
use plaudit_nn::dense::{Activation, AdamSettings};
use plaudit_pyfiles::{self as pyfiles, PyValue};
use plaudit_rl::replay::{Amount, ObsBuffer, RelabelSettings, ReplaySettings, Transitions};
use plaudit_rl::sac::{
    Agg, CriticKind, EncoderLoss, Optim, Sac, SacSettings, SampledActions, SoftNetworkSettings, StdBounds,
    TanhGaussian, TemperatureKind, TemperatureSettings, UpdateNoise,
};
use plaudit_rl::vision_encoder::{EncoderKind, VisionEncoderSettings};
use plaudit_rl::{Bootstrap, Learner};

fn fixtures() -> PyValue {
    fixtures_in("cases.pkl")
}

fn fixtures_in(file: &str) -> PyValue {
    pyfiles::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch_sac").join(file)).unwrap()
}

/// Numbers in a state; images are behind it in a row of the fixtures.
const STATES: usize = 5;
const FRAME: FrameShape = FrameShape { height: 7, width: 7, channels: 3 };

fn vision_encoder() -> VisionEncoderSettings {
    let layer = |channels, stride| ConvLayer { channels, kernel: 3, stride };
    VisionEncoderSettings {
        cameras: vec!["main".into()],
        encoder_kind: EncoderKind::Learned {
            frame: FRAME,
            layers: vec![layer(4, 2), layer(5, 1)],
            readout: ConvReadout::Flatten,
        },
        outputs: 6,
        states: STATES,
        state_outputs: 4,
        mix: vec![8, 6],
    }
}

/// Rows of a state and, where there are any, images.
fn obs_buffer(rows: &[f32], n: usize) -> ObsBuffer {
    let rows: Vec<&[f32]> = rows.chunks_exact(rows.len() / n).collect();
    let states = rows.iter().flat_map(|row| &row[..STATES]).copied().collect();
    let mut obs_buffer = ObsBuffer { states, ..ObsBuffer::default() };
    if rows[0].len() > STATES {
        let pixels = rows.iter().flat_map(|row| &row[STATES..]).map(|&pixel| pixel as u8).collect();
        obs_buffer.images.push(("main".into(), FRAME, pixels));
    }
    obs_buffer
}

fn floats(of: &PyValue, key: &str) -> Vec<f32> {
    of.get(key).unwrap_or_else(|| panic!("no {key}")).as_array().unwrap().to_f32().unwrap()
}

fn number(of: &PyValue, key: &str) -> f64 {
    of.get(key).unwrap_or_else(|| panic!("no {key}")).to_f64().unwrap()
}

fn word<'a>(of: &'a PyValue, key: &str) -> &'a str {
    of.get(key).unwrap().as_str().unwrap()
}

/// Within `relative` of the larger number, or within `absolute` where both are small.
fn assert_close(what: &str, ours: &[f32], theirs: &[f32], relative: f32, absolute: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
        let allowed = absolute + relative * a.abs().max(b.abs());
        assert!((a - b).abs() <= allowed, "{what}[{at}]: {a} where PyTorch has {b}");
    }
}

fn space() -> ActionSpace {
    ActionSpace::Continuous { low: vec![-1.0, -3.0], high: vec![1.0, 1.0] }
}

#[test]
fn samples_and_their_gradients_are_pytorchs() {
    let fixtures = fixtures();
    for (name, std_bounds) in [("soft", StdBounds::STATES), ("cut", StdBounds::IMAGES)] {
        let case = fixtures.get("tanh_gaussian").unwrap().get(name).unwrap();
        let gaussian = TanhGaussian::new(&space(), 1, std_bounds).unwrap();
        let (outputs, mut sampled) = (floats(case, "outputs"), SampledActions::default());
        gaussian.sample(&outputs, &floats(case, "noise"), &mut sampled);
        assert_close("action", &sampled.actions, &floats(case, "action"), 1e-6, 1e-6);
        assert_close("log_prob", &sampled.log_probs, &floats(case, "log_prob"), 1e-6, 1e-5);
        let mut grad_output = vec![0.0; outputs.len()];
        gaussian.backward(&sampled, &floats(case, "by_action"), 0.7, &mut grad_output);
        assert_close("by_output", &grad_output, &floats(case, "by_output"), 1e-5, 1e-6);
        let mut mode = Vec::new();
        gaussian.mode(&outputs, &mut mode);
        assert_close("mode", &mode, &floats(case, "mode"), 1e-6, 1e-6);
    }
}

fn agg(word: &str) -> Agg {
    if word == "min" { Agg::Min } else { Agg::Mean }
}

fn settings(case: &PyValue) -> SacSettings {
    let chunk = number(case, "chunk") as usize;
    let (actions, heads) = (space(), number(case, "heads") as usize);
    let networks = match case.get("images") {
        Some(_) => SoftNetworkSettings::cnn(vision_encoder(), actions, chunk, heads),
        None => SoftNetworkSettings::mlp(STATES, actions, chunk, heads),
    };
    let replay = ReplaySettings {
        keep: Amount::Rollouts(1),
        window: Amount::Rollouts(1),
        chunk,
        cameras: Vec::new(),
        relabel: RelabelSettings::default(),
    };
    let optim = |lr: &str| Optim {
        schedule: Schedule::constant(number(case, lr)),
        adam: AdamSettings { eps: number(case, "eps") as f32, ..AdamSettings::default() },
        clip_grad: number(case, "clip_grad") as f32,
    };
    SacSettings {
        networks: SoftNetworkSettings {
            policy_hidden: vec![8, 6],
            critic_hidden: vec![8, 6],
            activation: Activation::Tanh,
            critic_kind: match word(case, "kind") {
                "crossq" => CriticKind::CrossQ,
                "plain" => CriticKind::Plain,
                _ => CriticKind::LayerNorm,
            },
            ..networks
        },
        gamma: number(case, "gamma") as f32,
        bootstrap: if word(case, "bootstrap") == "always" { Bootstrap::Always } else { Bootstrap::Standard },
        agg_q: agg(word(case, "agg_q")),
        actor_agg_q: agg(word(case, "actor_agg_q")),
        critic_subsample: None,
        backup_entropy: number(case, "backup_entropy") == 1.0,
        target_range: None,
        scale_states: false,
        average_policy: false,
        encoder_loss: EncoderLoss::Critics,
        bc_regularizer: None,
        tau: number(case, "tau") as f32,
        target_update_freq: number(case, "target_update_freq") as u64,
        critic_actor_ratio: number(case, "critic_actor_ratio") as u64,
        train_actor_steps: 0,
        shift: None,
        temperature: TemperatureSettings {
            kind: match word(case, "alpha") {
                "softplus" => TemperatureKind::Softplus,
                "exp" => TemperatureKind::Exp,
                _ => TemperatureKind::Fixed,
            },
            initial: number(case, "initial_alpha"),
            target_entropy: number(case, "target_entropy"),
            lr: number(case, "alpha_lr"),
            clip_grad: number(case, "clip_grad"),
        },
        policy_optim: optim("lr"),
        critic_optim: optim("critic_lr"),
        batch_size: 7,
        updates: 1,
        replay,
        min_replay: Amount::Rollouts(0),
        demos: None,
    }
}

fn batch(step: &PyValue) -> (Transitions, UpdateNoise) {
    let batch = step.get("batch").unwrap();
    let mut transitions = Transitions {
        actions: floats(batch, "action"),
        rewards: floats(batch, "reward"),
        ends: floats(batch, "end")
            .iter()
            .map(|code| [End::No, End::Terminated, End::Truncated][*code as usize])
            .collect(),
        ..Transitions::default()
    };
    transitions.obs = obs_buffer(&floats(batch, "state"), transitions.len());
    transitions.next_obs = obs_buffer(&floats(batch, "next_state"), transitions.len());
    let heads = floats(batch, "heads").iter().map(|head| *head as usize).collect();
    let update_noise =
        UpdateNoise { next_noise: floats(batch, "next_noise"), noise: floats(batch, "noise"), heads };
    (transitions, update_noise)
}

/// Everything a learner has written down, by name.
fn checkpoint(sac: &Sac) -> Weights {
    let folder = tempfile::tempdir().unwrap();
    sac.save(folder.path()).unwrap();
    let file: PathBuf = folder.path().join("learner.safetensors");
    Weights::read(file).unwrap()
}

#[test]
fn whole_updates_are_pytorchs() {
    for name in ["sac", "redq", "crossq", "plain", "images"] {
        compare_updates(name, None);
    }
}

#[test]
fn whole_updates_on_a_gpu_are_pytorchs() {
    if let Some(kernels) = emulator::emulated() {
        compare_updates("images", Some(kernels));
    }
}

fn compare_updates(name: &str, kernels: Option<GpuKernels>) {
    let fixtures = fixtures_in(if name == "images" { "images.pkl" } else { "cases.pkl" });
    let case = fixtures.get("cases").unwrap().get(name).unwrap();
    let mut sac = Sac::new(settings(case.get("settings").unwrap()), Vec::new(), Seed::new(1)).unwrap();
    let mut initial = Weights::new();
    for (key, value) in case.get("initial").unwrap().as_dict().unwrap().iter() {
        initial.insert(key.as_str().unwrap(), value.as_array().unwrap().clone());
    }
    if let Some(kernels) = kernels {
        sac.use_gpu(kernels).unwrap();
    }
    sac.load(&initial).unwrap();
    for (at, step) in case.get("steps").unwrap().as_items().unwrap().iter().enumerate() {
        let (transitions, update_noise) = batch(step);
        let metrics = sac.update_on(transitions, update_noise).unwrap();
        let logged = step.get("logged").unwrap().as_dict().unwrap();
        for (key, value) in logged.iter() {
            let key = key.as_str().unwrap();
            let ours = metrics.get(key).unwrap_or_else(|| panic!("{name} does not log {key}"));
            let what = format!("{name} step {at} {key}");
            // Log-probabilities are sums of terms up to ten, in 32 bits.
            assert_close(&what, &[ours as f32], &[value.to_f64().unwrap() as f32], 2e-5, 1e-5);
        }
    }
    let ours = checkpoint(&sac);
    for (key, value) in case.get("after").unwrap().as_dict().unwrap().iter() {
        let key = key.as_str().unwrap();
        let what = format!("{name} {key}");
        let found = ours.f32(key).unwrap_or_else(|| panic!("{what} is missing"));
        // Adam divides gradients by their size, so that those near zero carry their rounding into the weights.
        assert_close(&what, &found, &value.as_array().unwrap().to_f32().unwrap(), 1e-4, 2e-6);
    }
}

/// The average of the policy is what acts and what is saved; the policy itself learns as it would without.
#[test]
fn the_average_that_acts_follows_the_policy_at_the_rate_of_the_target() {
    for name in ["sac", "images"] {
        let fixtures = fixtures_in(if name == "images" { "images.pkl" } else { "cases.pkl" });
        let case = fixtures.get("cases").unwrap().get(name).unwrap();
        let plain = settings(case.get("settings").unwrap());
        let (tau, every) = (plain.tau, plain.target_update_freq);
        let averaging = || {
            let settings = SacSettings { average_policy: true, ..settings(case.get("settings").unwrap()) };
            Sac::new(settings, Vec::new(), Seed::new(1)).unwrap()
        };
        let mut initial = Weights::new();
        for (key, value) in case.get("initial").unwrap().as_dict().unwrap().iter() {
            initial.insert(key.as_str().unwrap(), value.as_array().unwrap().clone());
        }
        let (mut sac, mut without) = (averaging(), Sac::new(plain, Vec::new(), Seed::new(1)).unwrap());
        sac.load(&initial).unwrap();
        without.load(&initial).unwrap();
        let mut expected = checkpoint(&sac).under("networks/");
        for (at, step) in case.get("steps").unwrap().as_items().unwrap().iter().enumerate() {
            for sac in [&mut sac, &mut without] {
                let (transitions, update_noise) = batch(step);
                sac.update_on(transitions, update_noise).unwrap();
            }
            let (saved, shown) = (checkpoint(&sac), sac.weights());
            assert_eq!(
                saved.under("networks/"),
                checkpoint(&without).under("networks/"),
                "{name}: it learns the same"
            );
            for (key, average) in saved.under("policy_average/").iter() {
                let what = format!("{name} step {at} {key}");
                let policy = saved.f32(&format!("networks/{key}")).unwrap();
                let mut moved = expected.f32(key).unwrap();
                if (at as u64 + 1).is_multiple_of(every) {
                    moved
                        .iter_mut()
                        .zip(&policy)
                        .for_each(|(average, new)| *average += tau * (new - *average));
                }
                assert_close(&what, &average.to_f32().unwrap(), &moved, 1e-6, 1e-7);
                assert_eq!(
                    shown.get(key),
                    Some(average),
                    "{what}: the average is what is saved as the policy"
                );
                expected.insert_f32(key, average.shape(), &moved);
            }
        }
        assert_ne!(sac.weights(), without.weights(), "{name}: the average lags behind");

        let folder = tempfile::tempdir().unwrap();
        sac.save(folder.path()).unwrap();
        let mut restored = averaging();
        restored.restore(folder.path()).unwrap();
        assert_eq!(sac.weights(), restored.weights());
        let step = &case.get("steps").unwrap().as_items().unwrap()[0];
        for sac in [&mut sac, &mut restored] {
            let (transitions, update_noise) = batch(step);
            sac.update_on(transitions, update_noise).unwrap();
        }
        assert_eq!(sac.weights(), restored.weights(), "{name}: a restored average goes on where it was");
        without.save(folder.path()).unwrap();
        assert!(
            averaging().restore(folder.path()).is_err(),
            "{name}: a checkpoint without an average is refused"
        );
    }
}

/// The tensors of the encoder.
fn is_of_encoder(name: &str) -> bool {
    name.starts_with("encoders.") || name.starts_with("state_proj.")
}

/// The first batch of the images' fixture, its weights, and a learner whose policy trains the encoder.
struct PolicyTrainsEncoder {
    fixtures: PyValue,
    initial: Weights,
}

impl PolicyTrainsEncoder {
    fn new() -> Self {
        let fixtures = fixtures_in("images.pkl");
        let case = fixtures.get("cases").unwrap().get("images").unwrap();
        let mut initial = Weights::new();
        for (key, value) in case.get("initial").unwrap().as_dict().unwrap().iter() {
            initial.insert(key.as_str().unwrap(), value.as_array().unwrap().clone());
        }
        Self { fixtures, initial }
    }

    fn case(&self) -> &PyValue {
        self.fixtures.get("cases").unwrap().get("images").unwrap()
    }

    /// The loss of the policy in an update from these weights, and the weights after it.
    fn updated(
        &self,
        from: &Weights,
        change: impl FnOnce(SacSettings) -> SacSettings,
        kernels: Option<GpuKernels>,
    ) -> (Option<f64>, Weights) {
        let settings = settings(self.case().get("settings").unwrap());
        let settings = change(SacSettings { encoder_loss: EncoderLoss::Policy, ..settings });
        let mut sac = Sac::new(settings, Vec::new(), Seed::new(1)).unwrap();
        if let Some(kernels) = kernels {
            sac.use_gpu(kernels).unwrap();
        }
        sac.load(from).unwrap();
        let (transitions, update_noise) = batch(&self.case().get("steps").unwrap().as_items().unwrap()[0]);
        let metrics = sac.update_on(transitions, update_noise).unwrap();
        (metrics.get("train/sac/actor_loss"), sac.weights())
    }
}

#[test]
fn critics_leave_an_encoder_alone_that_the_policy_trains() {
    let fixture = PolicyTrainsEncoder::new();
    for kernels in [None].into_iter().chain(emulator::emulated().map(Some)) {
        let critics_alone = |settings| SacSettings { train_actor_steps: 9, ..settings };
        let (_, after) = fixture.updated(&fixture.initial, critics_alone, kernels);
        let (mut encoder, mut critics) = (0, 0);
        for (name, tensor) in fixture.initial.iter().filter(|(name, _)| after.get(name).is_some()) {
            let (before, after) = (tensor.to_f32().unwrap(), after.f32(name).unwrap());
            if is_of_encoder(name) {
                encoder += 1;
                assert_eq!(before, after, "{name}");
            } else if name.starts_with("q_head.") {
                critics += usize::from(before != after);
            }
        }
        assert!(encoder > 4 && critics > 8, "{encoder} tensors of the encoder, {critics} of the critics");
    }
}

/// Critics that take no notice of what is encoded, so that the policy's loss depends on the encoder through actions alone: that is
/// the gradient that is left where critics are not to train the encoder.
#[test]
fn the_policys_loss_trains_the_encoder_along_its_gradient() {
    let fixture = PolicyTrainsEncoder::new();
    let mut blind = fixture.initial.clone();
    for (name, tensor) in fixture.initial.iter() {
        if name.starts_with("q_head.") && name.ends_with("net.0.weight") {
            let (mut values, inputs) = (tensor.to_f32().unwrap(), tensor.shape()[1]);
            values.chunks_exact_mut(inputs).for_each(|row| row[..inputs - 2].fill(0.0));
            blind.insert_f32(name, tensor.shape(), &values);
        }
    }
    // The first step of Adam is lr g / (|g| + eps): with so large a constant, the gradient itself, a thousandth of it.
    let descending = |settings: SacSettings| {
        let optim = |lr: f64| Optim {
            schedule: Schedule::constant(lr),
            adam: AdamSettings { eps: 1e3, ..AdamSettings::default() },
            clip_grad: 1e9,
        };
        SacSettings { policy_optim: optim(1.0), critic_optim: optim(0.0), ..settings }
    };
    let loss = |weights: &Weights| fixture.updated(weights, descending, None).0.unwrap();
    for kernels in [None].into_iter().chain(emulator::emulated().map(Some)) {
        let (_, after) = fixture.updated(&blind, descending, kernels);
        let (mut compared, mut largest) = (0, 0.0_f64);
        for (name, tensor) in blind.iter().filter(|(name, _)| is_of_encoder(name)) {
            let Some(after) = after.f32(name) else { continue };
            let before = tensor.to_f32().unwrap();
            for at in [0, before.len() / 2] {
                let gradient = 1e3 * f64::from(before[at] - after[at]);
                let moved = |by: f32| {
                    let mut values = before.clone();
                    values[at] += by;
                    let mut weights = blind.clone();
                    weights.insert_f32(name, tensor.shape(), &values);
                    loss(&weights)
                };
                let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                assert!(
                    (gradient - expected).abs() < 2e-3 + 0.03 * expected.abs(),
                    "{name}[{at}]: {gradient} and {expected}"
                );
                (compared, largest) = (compared + 1, largest.max(expected.abs()));
            }
        }
        assert!(compared > 10 && largest > 0.02, "{compared} gradients of up to {largest}");
    }
}

#[test]
fn an_encoder_that_is_not_there_cannot_be_trained_by_the_policy() {
    let fixtures = fixtures();
    let settings = settings(fixtures.get("cases").unwrap().get("sac").unwrap().get("settings").unwrap());
    let settings = SacSettings { encoder_loss: EncoderLoss::Policy, ..settings };
    assert!(Sac::new(settings, Vec::new(), Seed::new(1)).is_err());
}
