//! PPO against PyTorch: advantages, losses, gradients, and weights after steps of the optimiser.
//!
//! The fixtures and the script that made them are in `tests/torch_ppo`.

use plaudit_core::{
    ActionSpace, End, FrameShape, Frames, Obs, PolicyError, RewardColumn, Segment, StepRow, Term,
};
use plaudit_nn::dense::encoder::{ConvLayer, ConvReadout};
use serde_json::Value;

#[path = "../../../nn/tests/emulator/mod.rs"]
#[allow(unsafe_code, clippy::print_stderr)] // a library of C++
mod emulator;

use super::*;
use crate::vision_encoder::{EncoderKind, Trunk, VisionEncoderSettings};
use crate::{Bootstrap, Decisions, Inputs, StdKind};

const CASES: [&str; 8] = [
    "independent",
    "by_state",
    "choice",
    "chunk_of_actions",
    "chunk_of_rewards",
    "chunk_as_a_whole",
    "images_learned",
    "images_frozen",
];

/// Numbers in a state, and the size of images where there are some.
const STATES: usize = 5;
const FRAME: FrameShape = FrameShape { height: 7, width: 7, channels: 3 };
const CAMERAS: [&str; 2] = ["main", "wrist"];

/// A trunk that is an average over two by two pixels.
#[derive(Debug)]
struct Averages;

impl Trunk for Averages {
    fn shape(&self) -> [usize; 3] {
        [3, 3, 3]
    }

    fn features(&self, frames: &Frames) -> Result<Vec<f32>, PolicyError> {
        let mut features = Vec::new();
        for image in frames.pixels.chunks_exact(FRAME.bytes()) {
            for at in 0..27 {
                let (channel, y, x) = (at / 9, at / 3 % 3, at % 3);
                let pixel = |down: usize, right: usize| {
                    f32::from(image[((2 * y + down) * 7 + 2 * x + right) * 3 + channel]) / 255.0
                };
                features.push((pixel(0, 0) + pixel(0, 1) + pixel(1, 0) + pixel(1, 1)) / 4.0);
            }
        }
        Ok(features)
    }

    fn weights(&self) -> Weights {
        Weights::new()
    }
}

struct Case {
    name: &'static str,
    tensors: Weights,
    settings: Value,
    torch_metrics: Value,
}

impl Case {
    fn read(name: &'static str) -> Self {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch_ppo").join(name);
        let fixture = std::fs::read_to_string(place.with_extension("json")).unwrap();
        let mut fixture: Value = serde_json::from_str(&fixture).unwrap();
        let (settings, torch_metrics) = (fixture["settings"].take(), fixture["metrics"].take());
        Self { name, tensors: Weights::read(place.with_extension("pt")).unwrap(), settings, torch_metrics }
    }

    fn number(&self, key: &str) -> f64 {
        self.settings[key].as_f64().unwrap()
    }

    fn optional(&self, key: &str) -> Option<f32> {
        self.settings[key].as_f64().map(|value| value as f32)
    }

    fn level(&self, key: &str) -> Level {
        if self.settings[key] == "chunk" { Level::Chunk } else { Level::Action }
    }

    fn is(&self, key: &str) -> bool {
        self.settings[key].as_bool().unwrap()
    }

    fn networks(&self) -> ActorCriticSettings {
        let (chunk, width) = (self.number("chunk") as usize, self.number("width") as usize);
        ActorCriticSettings {
            inputs: self.inputs(),
            actions: match self.number("choices") as usize {
                0 => ActionSpace::Continuous { low: vec![-1.0; width], high: vec![1.0; width] },
                n => ActionSpace::Discrete { n },
            },
            chunk,
            hidden: vec![8, 8, 8],
            std_kind: if self.is("by_state") { StdKind::StateDependent } else { StdKind::Independent },
            values: if self.level("reward_level") == Level::Action { chunk } else { 1 },
        }
    }

    fn inputs(&self) -> Inputs {
        let encoder_kind = match self.settings["encoder"].as_str() {
            None => return Inputs::States(STATES),
            Some("learned") => {
                let layer = |channels, stride| ConvLayer { channels, kernel: 3, stride };
                EncoderKind::Learned {
                    frame: FRAME,
                    layers: vec![layer(4, 2), layer(5, 1)],
                    readout: ConvReadout::Flatten,
                }
            }
            Some(_) => EncoderKind::Frozen { trunk: Arc::new(Averages), embeddings: 2, dropout: 0.1 },
        };
        let cameras = CAMERAS.map(Arc::from).to_vec();
        Inputs::Images(VisionEncoderSettings {
            cameras,
            encoder_kind,
            outputs: 6,
            states: STATES,
            state_outputs: 4,
            mix: vec![8, 8],
        })
    }

    /// Observations from rows of a state, and the pixels of each camera behind it.
    fn obs(rows: &[f32], batch: usize) -> Obs {
        let rows: Vec<&[f32]> = rows.chunks_exact(rows.len() / batch).collect();
        let states = rows.iter().flat_map(|row| &row[..STATES]).copied().collect();
        let mut obs = Obs::from_state(batch, states).unwrap();
        for (at, name) in CAMERAS.iter().enumerate().filter(|_| rows[0].len() > STATES) {
            let start = STATES + at * FRAME.bytes();
            let pixels = rows.iter().flat_map(|row| &row[start..start + FRAME.bytes()]);
            let frames = Frames::new(FRAME, pixels.map(|&pixel| pixel as u8).collect()).unwrap();
            obs = obs.with_camera(*name, frames).unwrap();
        }
        obs
    }

    fn learner(&self, update_epochs: usize) -> Ppo {
        let number = |key: &str| self.number(key) as f32;
        let settings = PpoSettings {
            gae: GaeSettings {
                gamma: number("gamma"),
                lambda: number("gae_lambda"),
                bootstrap: if self.is("always") { Bootstrap::Always } else { Bootstrap::Standard },
            },
            normalize_advantages: self.is("normalize"),
            reward_level: self.level("reward_level"),
            log_prob_level: self.level("log_prob_level"),
            entropy_level: self.level("entropy_level"),
            loss: LossSettings {
                clip: [number("clip_low"), number("clip_high")],
                dual_clip: self.optional("clip_c"),
                value_clip: self.optional("value_clip"),
                huber_delta: number("huber_delta"),
                kl_beta: number("kl_beta"),
                kl: KlEstimate::LowVariance,
            },
            entropy_bonus: number("entropy_bonus"),
            target_kl: None,
            update_epochs,
            batch: 1000,
            micro_batch: 7, // several to a batch: gradients add up
            adam: AdamSettings { weight_decay: number("weight_decay"), ..AdamSettings::default() },
            lr: Schedule::constant(self.number("lr")),
            value_lr: Schedule::constant(self.number("value_lr")),
            clip_grad: number("clip_grad"),
            critic_warmup: 0,
        };
        let mut ppo = Ppo::new(&self.networks(), settings, Seed::new(1)).unwrap();
        ppo.load(&self.tensors.under("before/")).unwrap();
        ppo
    }

    fn experience(&self) -> Experience {
        let of = |name: &str| self.tensors.f32(&format!("rollout/{name}")).unwrap();
        let (states, last, actions, end) = (of("states"), of("last"), of("actions"), of("end"));
        let batch = 4;
        let steps = end.len() / batch;
        let wide = last.len() / end.len();
        let width = actions.len() / end.len();
        let obs = |t: usize| Self::obs(&states[t * batch * wide..(t + 1) * batch * wide], batch);
        let mut segment = Segment::starting_at(obs(0));
        for t in 0..steps {
            let rows = t * batch..(t + 1) * batch;
            let ends: Vec<End> = end[rows.clone()]
                .iter()
                .map(|&end| [End::No, End::Terminated, End::Truncated][end as usize])
                .collect();
            let of_row = |b: usize| &last[(t * batch + b) * wide..(t * batch + b + 1) * wide];
            let ended = (0..batch).filter(|&b| ends[b].is_end());
            let last = ended.map(|b| (b, Self::obs(of_row(b), 1))).collect();
            let actions = actions[rows.start * width..rows.end * width].to_vec();
            let row =
                StepRow { actions, env_reward: vec![0.0; batch], end: ends, success: vec![false; batch] };
            segment.push(row, obs(t + 1), last).unwrap();
        }
        let starts_chunk = of("fresh").iter().map(|&starts_chunk| starts_chunk == 1.0).collect();
        let decisions = Decisions {
            log_probs: of("old_log_prob"),
            values: vec![],
            starts_chunk,
            intervened: vec![],
            invalid: vec![],
        };
        let term = Term { name: "env".into(), weight: 1.0, values: of("rewards") };
        Experience { segment, decisions, reward: RewardColumn::of_terms(vec![term], 0).unwrap() }
    }

    /// Every number of `made` is within `absolute` and one part in `1 / relative` of what PyTorch has.
    fn compare(&self, made: &Weights, prefix: &str, relative: f32, absolute: f32) {
        let expected = self.tensors.under(prefix);
        assert_eq!(made.len(), expected.len(), "{}: tensors of {prefix}", self.name);
        for (name, tensor) in expected.iter() {
            let (expected, made) = (tensor.to_f32().unwrap(), made.f32(name).unwrap());
            for (at, (expected, made)) in expected.iter().zip(&made).enumerate() {
                let close = (expected - made).abs() <= absolute + relative * expected.abs();
                assert!(close, "{}: {prefix}{name}[{at}] is {made} where PyTorch has {expected}", self.name);
            }
        }
    }

    fn torch_metrics(&self, key: &str) -> Vec<f64> {
        self.torch_metrics[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    }
}

#[test]
fn advantages_are_pytorchs() {
    for name in CASES {
        let case = Case::read(name);
        let mut ppo = case.learner(1);
        let stored_rollout = StoredRollout::new(case.experience(), &ppo.networks).unwrap();
        let samples = ppo.samples(&[stored_rollout]).unwrap();
        let mut made = Weights::new();
        made.insert_f32("advantage", &[samples.advantage.len()], &samples.advantage);
        made.insert_f32("target", &[samples.target.len()], &samples.target);
        for (column, values) in [("advantage", &samples.advantage), ("target", &samples.target)] {
            let expected = case.tensors.f32(column).unwrap();
            assert_eq!(values.len(), expected.len(), "{name}: {column}");
            let off =
                values.iter().zip(&expected).map(|(made, right)| (made - right).abs()).fold(0.0, f32::max);
            assert!(off < 2e-6, "{name}: {column} is off by {off}");
        }
    }
}

#[test]
fn gradients_are_pytorchs() {
    for name in CASES {
        let case = Case::read(name);
        let mut ppo = case.learner(1);
        let rollouts = [StoredRollout::new(case.experience(), &ppo.networks).unwrap()];
        let mut samples = ppo.samples(&rollouts).unwrap();
        if ppo.settings.normalize_advantages {
            samples.normalize();
        }
        let all: Vec<u32> = (0..samples.decisions.len() as u32).collect();
        ppo.gradients(&rollouts, &samples, &all).unwrap();
        // Layer norms over four to eight numbers divide by their deviation, and so magnify what both sides round.
        let absolute = if case.settings["encoder"].is_null() { 3e-7 } else { 1e-6 };
        case.compare(&ppo.networks.export(&ppo.buffers.grads), "grad/", 1e-5, absolute);
    }
}

/// What is declared to learn does; a frozen trunk is no parameter, and its images are not even kept.
#[test]
fn every_tensor_that_learns_has_a_gradient() {
    for name in ["images_learned", "images_frozen"] {
        let case = Case::read(name);
        let mut ppo = case.learner(1);
        let stored_rollout = StoredRollout::new(case.experience(), &ppo.networks).unwrap();
        let is_frozen = name == "images_frozen";
        assert_eq!(stored_rollout.experience.segment.obs.iter().all(|obs| obs.cameras.is_empty()), is_frozen);
        let rollouts = [stored_rollout];
        let samples = ppo.samples(&rollouts).unwrap();
        let all: Vec<u32> = (0..samples.decisions.len() as u32).collect();
        ppo.gradients(&rollouts, &samples, &all).unwrap();
        let grads = ppo.networks.export(&ppo.buffers.grads);
        for (name, tensor) in grads.iter() {
            assert!(tensor.to_f32().unwrap().iter().any(|grad| *grad != 0.0), "{name} learns nothing");
            assert!(!name.contains(crate::vision_encoder::TRUNK), "{name} should not learn");
        }
        assert_eq!(grads.names().any(|name| name.contains(".conv.")), !is_frozen);
    }
}

#[test]
fn images_that_do_not_fit_are_refused() {
    let case = Case::read("images_learned");
    let mut ppo = case.learner(1);
    let mut experience = case.experience();
    experience.segment.obs[3].cameras.truncate(1);
    let error = ppo.add_experience(experience).unwrap_err().to_string();
    assert_eq!(error, "the policy expects images of `wrist`, the environment gives main");
    let mut experience = case.experience();
    let small = Frames::new(FrameShape::rgb(2, 2), vec![0; 48]).unwrap();
    experience.segment.obs[0].cameras[0].1 = small;
    let error = ppo.add_experience(experience).unwrap_err().to_string();
    assert!(error.contains("7x7x3") && error.contains("2x2x3"), "{error}");
}

#[test]
fn a_whole_step_of_learning_is_pytorchs() {
    for name in CASES {
        compare_step(name, || None);
    }
}

#[test]
fn a_whole_step_of_learning_on_a_gpu_is_pytorchs() {
    if emulator::emulated().is_some() {
        compare_step("images_learned", emulator::emulated);
        let mut frozen = Case::read("images_frozen").learner(1);
        let refused = frozen.use_gpu(emulator::emulated().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("frozen trunk"), "{refused}");
    }
}

fn compare_step(name: &'static str, kernels: impl Fn() -> Option<GpuKernels>) {
    let case = Case::read(name);
    for (epochs, prefix) in [(1, "after_one/"), (3, "after/")] {
        let mut ppo = case.learner(epochs);
        if let Some(kernels) = kernels() {
            ppo.use_gpu(kernels).unwrap();
        }
        ppo.add_experience(case.experience()).unwrap();
        let metrics = ppo.improve().unwrap();
        // Adam divides by the size of a gradient, so that rounding in a small one shows in its step.
        case.compare(&ppo.weights(), prefix, 1e-6, 1e-6 * epochs as f32);
        for (key, metric) in [
            ("policy_loss", "train/actor/policy_loss"),
            ("value_loss", "train/critic/value_loss"),
            ("entropy_loss", "train/actor/entropy_loss"),
            ("approx_kl", "train/actor/approx_kl"),
            ("total_loss", "train/actor/total_loss"),
            ("grad_norm", "train/actor/grad_norm"),
        ] {
            let torch_metrics = case.torch_metrics(key);
            let expected = torch_metrics[..epochs].iter().sum::<f64>() / epochs as f64;
            let made = metrics.get(metric).unwrap();
            assert!(
                (made - expected).abs() < 2e-6 * expected.abs().max(1.0),
                "{name}: {key} {made} {expected}"
            );
        }
    }
}
