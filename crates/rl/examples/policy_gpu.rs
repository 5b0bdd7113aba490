//! Policies on images on a GPU: checks them against the CPU at the size they are trained at, then times an update of each.
//!
//! ```text
//! policy_gpu check      gradients of one update, and weights after some, beside the CPU's; two runs of the same bits
//! policy_gpu rounding   the same of the CPU beside itself with states moved in their last bits: needs no GPU
//! policy_gpu time       milliseconds of an update: SAC with demonstrations, PPO, and the passes they are made of
//! ```
//!
//! `bench/gpu/README.md` has the numbers, beside those of PyTorch (`bench/gpu/policy.py`).

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a program for the terminal, which stops where something is wrong

use std::time::Instant;

use plaudit_core::{
    ActionSpace, End, EnvReward, FrameShape, Frames, Obs, Reward, Rng, Schedule, Seed, Segment, StepRow,
};
use plaudit_nn::Weights;
use plaudit_nn::dense::AdamSettings;
use plaudit_nn::dense::encoder::{ConvEncoder, ConvEncoderSpec, ConvLayer, ConvReadout};
use plaudit_nn::dense::gpu::{GpuConvEncoder, GpuKernels, Params, Rows, WeightGradients};
use plaudit_nn::kernels::Precision;
use plaudit_rl::ppo::{Ppo, PpoSettings};
use plaudit_rl::replay::{Amount, NewRollout, RelabelSettings, ReplaySettings};
use plaudit_rl::sac::{
    Agg, BcRegularizer, DemoSettings, EncoderLoss, Optim, Sac, SacSettings, SoftNetworkSettings,
    TemperatureKind, TemperatureSettings,
};
use plaudit_rl::vision_encoder::{EncoderKind, VisionEncoderSettings};
use plaudit_rl::{ActorCriticSettings, Bootstrap, Decisions, Experience, Inputs, Learner, Metrics, StdKind};

const FRAME: FrameShape = FrameShape { height: 64, width: 64, channels: 3 };
const STATES: usize = 29;
const ACTIONS: usize = 4;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("check") => {
            for kind in [EncoderKind::keypoints(FRAME), EncoderKind::learned(FRAME)] {
                check_sac(&kind);
                check_ppo(&kind);
            }
        }
        Some("rounding") => {
            for kind in [EncoderKind::keypoints(FRAME), EncoderKind::learned(FRAME)] {
                show_rounding(&kind);
            }
        }
        Some("time") => {
            time_passes();
            for batch in [64, 256] {
                time_sac(batch, true);
                time_sac(batch, false);
            }
            time_ppo(true);
            time_ppo(false);
        }
        _ => println!("policy_gpu check|rounding|time"),
    }
}

// ---- What is learned from ----

/// By how much states are moved to see what rounding makes of an update: the last bits of a float. Gradients of two programs that sum in
/// another order differ by as much.
const ROUNDING: [f32; 3] = [f32::EPSILON, 4.0 * f32::EPSILON, 16.0 * f32::EPSILON];

fn obs(rng: &mut Rng, rows: usize, nudge: f32) -> Obs {
    let state = (0..rows * STATES).map(|_| rng.normal() as f32 * (1.0 + nudge)).collect();
    let mut obs = Obs::from_state(rows, state).unwrap();
    for camera in ["base_camera", "hand_camera"] {
        let mut pixels = vec![0; rows * FRAME.bytes()];
        for (at, image) in pixels.chunks_exact_mut(FRAME.bytes()).enumerate() {
            // A gradient with a square somewhere: more like a camera's image than noise.
            let (top, left, shade) = (rng.below(56), rng.below(56), rng.below(156) as u8);
            for (place, pixel) in image.chunks_exact_mut(3).enumerate() {
                let (y, x) = (place / 64, place % 64);
                let inside = (top..top + 8).contains(&y) && (left..left + 8).contains(&x);
                let value = if inside { 255 - (at % 7) as u8 } else { shade + y as u8 + (x / 2) as u8 };
                pixel.copy_from_slice(&[value, value / 2 + rng.below(9) as u8, 255 - value]);
            }
        }
        obs = obs.with_camera(camera, Frames::new(FRAME, pixels).unwrap()).unwrap();
    }
    obs
}

fn segment(seed: u64, rows: usize, steps: usize, nudge: f32) -> Segment {
    let mut rng = Seed::new(seed).rng();
    let mut segment = Segment::continuing(obs(&mut rng, rows, nudge), Vec::new(), vec![0; rows]);
    for step in 1..=steps {
        let is_over = step == steps;
        let row = StepRow {
            actions: (0..rows * ACTIONS).map(|_| (0.4 * rng.normal() as f32).clamp(-1.0, 1.0)).collect(),
            env_reward: vec![f32::from(u8::from(is_over)); rows],
            end: vec![if is_over { End::Terminated } else { End::No }; rows],
            success: vec![is_over; rows],
        };
        let last: Vec<(usize, Obs)> = match is_over {
            true => (0..rows).map(|row| (row, obs(&mut rng, 1, nudge))).collect(),
            false => Vec::new(),
        };
        let next = obs(&mut rng, rows, nudge);
        segment.push(row, next, last).unwrap();
    }
    segment
}

fn experience(segment: Segment) -> Experience {
    let reward = EnvReward.label(&segment).unwrap();
    let steps = reward.total.len();
    let decisions = Decisions {
        starts_chunk: vec![true; steps],
        log_probs: vec![-0.9; steps * ACTIONS],
        ..Decisions::default()
    };
    Experience { segment, decisions, reward }
}

fn actions() -> ActionSpace {
    ActionSpace::Continuous { low: vec![-1.0; ACTIONS], high: vec![1.0; ACTIONS] }
}

fn vision_encoder(kind: &EncoderKind) -> VisionEncoderSettings {
    VisionEncoderSettings::new(vec!["base_camera".into(), "hand_camera".into()], STATES, kind.clone())
}

// ---- Learners, as the recipes have them ----

/// As `pickcube_rlpd_cnn` has it, with shifted images.
fn sac(kind: &EncoderKind, batch_size: usize, updates: u64, nudge: f32) -> Sac {
    let replay = ReplaySettings {
        keep: Amount::Rollouts(99),
        window: Amount::Rollouts(99),
        chunk: 1,
        cameras: vec!["base_camera".into(), "hand_camera".into()],
        relabel: RelabelSettings::default(),
    };
    let optim =
        Optim { schedule: Schedule::constant(3e-5), adam: AdamSettings::default(), clip_grad: 1000.0 };
    let settings = SacSettings {
        networks: SoftNetworkSettings::cnn(vision_encoder(kind), actions(), 1, 5),
        gamma: 0.97,
        bootstrap: Bootstrap::Standard,
        agg_q: Agg::Min,
        actor_agg_q: Agg::Min,
        critic_subsample: None,
        backup_entropy: false,
        target_range: Some([0.0, 1.0]),
        scale_states: true,
        average_policy: false,
        encoder_loss: EncoderLoss::Critics,
        bc_regularizer: Some(BcRegularizer { weight: 20.0, std: Some(vec![0.05; ACTIONS]) }),
        tau: 0.01,
        target_update_freq: 1,
        critic_actor_ratio: 2,
        train_actor_steps: 0,
        shift: Some(4),
        temperature: TemperatureSettings {
            kind: TemperatureKind::Softplus,
            initial: 0.001,
            target_entropy: -10.0,
            lr: 3e-4,
            clip_grad: 10.0,
        },
        policy_optim: optim,
        critic_optim: optim,
        batch_size,
        updates,
        replay: replay.clone(),
        min_replay: Amount::Rollouts(1),
        demos: Some(DemoSettings { replay, min: Amount::Rollouts(1), self_imitation_min_reward: None }),
    };
    let demo = segment(1, 16, 20, nudge);
    let reward = EnvReward.label(&demo).unwrap().total;
    let demo =
        NewRollout { segment: demo, starts_chunk: Vec::new(), invalid: Vec::new(), reward, version: 0 };
    let mut sac = Sac::new(settings, vec![demo], Seed::new(3)).unwrap();
    sac.add_experience(experience(segment(2, 16, 25, nudge))).unwrap();
    sac
}

/// As `maniskill_ppo_cnn` has it, with a second camera.
fn ppo(kind: &EncoderKind, batch: usize, update_epochs: usize) -> Ppo {
    let networks = ActorCriticSettings {
        inputs: Inputs::Images(vision_encoder(kind)),
        actions: actions(),
        chunk: 1,
        hidden: vec![256; 3],
        std_kind: StdKind::Independent,
        values: 1,
    };
    let settings = PpoSettings {
        batch,
        micro_batch: batch.min(400),
        update_epochs,
        lr: Schedule::constant(3e-4),
        value_lr: Schedule::constant(3e-4),
        adam: AdamSettings { weight_decay: 0.01, ..AdamSettings::default() },
        ..PpoSettings::default()
    };
    Ppo::new(&networks, settings, Seed::new(5)).unwrap()
}

fn on_gpu() -> GpuKernels {
    GpuKernels::open(0).unwrap()
}

// ---- Checks ----

fn checkpoint(learner: &dyn Learner) -> Weights {
    let folder = std::env::temp_dir().join(format!("policy_gpu_{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    learner.save(&folder).unwrap();
    let weights = Weights::read(folder.join("learner.safetensors")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    weights
}

/// The largest difference of each kind of tensor, relative to the largest number of that tensor, and where it is.
fn furthest(ours: &Weights, expected: &Weights, under: &str) -> (f32, String) {
    let (mut worst, mut at) = (0.0f32, String::new());
    for (name, tensor) in expected.iter().filter(|(name, _)| name.starts_with(under)) {
        let (ours, expected) = (ours.f32(name).unwrap(), tensor.to_f32().unwrap());
        assert!(ours.iter().all(|x| x.is_finite()), "{name} is no number");
        let most = expected.iter().fold(1e-30f32, |most, x| most.max(x.abs()));
        let off = ours.iter().zip(&expected).fold(0.0f32, |off, (a, b)| off.max((a - b).abs())) / most;
        if off > worst {
            (worst, at) = (off, name.to_owned());
        }
    }
    (worst, at)
}

/// What the CPU computed, and what it computes from states that are moved in their last bits.
struct Expected {
    cpu: Weights,
    nudged: Vec<Weights>,
}

impl Expected {
    fn of(improved: impl Fn(f32) -> Weights) -> Self {
        Self { cpu: improved(0.0), nudged: ROUNDING.into_iter().map(improved).collect() }
    }

    fn rounding(&self, under: &str) -> (f32, String) {
        let all = self.nudged.iter().map(|nudged| furthest(nudged, &self.cpu, under));
        all.max_by(|(one, _), (other, _)| one.total_cmp(other)).unwrap()
    }

    /// Whether a GPU is near enough: within a tolerance, or within three times what rounding does. Adam divides a gradient by its size, and
    /// a ReLU opens or closes, so that rounding may become a whole step.
    fn compare(&self, what: &str, gpu: &Weights, under: &str, tolerance: f32) {
        let (worst, at) = furthest(gpu, &self.cpu, under);
        let (rounding, _) = self.rounding(under);
        let verdict = if worst <= tolerance.max(3.0 * rounding) { "ok" } else { "TOO FAR" };
        let limit = format!("at most {tolerance:.0e}, or 3 x {rounding:.1e} of rounding");
        println!("{verdict:8} {what:44} {worst:.2e} ({limit}), worst {at}");
    }
}

fn improved(mut sac: Sac, is_gpu: bool) -> (Weights, Metrics) {
    if is_gpu {
        sac.use_gpu(on_gpu()).unwrap();
    }
    let metrics = sac.improve().unwrap();
    (checkpoint(&sac), metrics)
}

fn check_sac(kind: &EncoderKind) {
    println!("SAC, {}", readout(kind));
    for updates in [1, 20] {
        let expected = Expected::of(|nudge| improved(sac(kind, 64, updates, nudge), false).0);
        let (_, cpu_metrics) = improved(sac(kind, 64, updates, 0.0), false);
        let (gpu, gpu_metrics) = improved(sac(kind, 64, updates, 0.0), true);
        let (again, _) = improved(sac(kind, 64, updates, 0.0), true);
        if updates == 1 {
            for key in [
                "train/sac/critic_loss",
                "train/critic/grad_norm",
                "train/sac/actor_loss",
                "train/actor/grad_norm",
            ] {
                println!("         {key:44} {:?} {:?}", cpu_metrics.get(key), gpu_metrics.get(key));
            }
            // After one step the first moments are a tenth of the gradients.
            expected.compare("gradients of one update", &gpu, "adam_m", 1e-4);
        }
        let tolerance = 3e-5 * updates as f32;
        expected.compare(&format!("networks after {updates} updates"), &gpu, "networks", 20.0 * tolerance);
        expected.compare(&format!("target after {updates} updates"), &gpu, "target", tolerance);
        println!(
            "{:8} two runs of {updates} updates have the same bits",
            if gpu == again { "ok" } else { "DIFFER" }
        );
    }
}

/// Some updates of PPO from 200 steps: one of them all, or eight of 100.
fn improved_ppo(kind: &EncoderKind, updates: usize, nudge: f32, is_gpu: bool) -> (Weights, Metrics) {
    let mut ppo = match updates {
        1 => ppo(kind, 200, 1),
        _ => ppo(kind, 100, updates / 2),
    };
    if is_gpu {
        ppo.use_gpu(on_gpu()).unwrap();
    }
    ppo.add_experience(experience(segment(7, 8, 25, nudge))).unwrap();
    let metrics = ppo.improve().unwrap();
    (checkpoint(&ppo), metrics)
}

fn check_ppo(kind: &EncoderKind) {
    println!("PPO, {}", readout(kind));
    let expected = Expected::of(|nudge| improved_ppo(kind, 1, nudge, false).0);
    let (_, cpu_metrics) = improved_ppo(kind, 1, 0.0, false);
    let (gpu, gpu_metrics) = improved_ppo(kind, 1, 0.0, true);
    for key in ["train/actor/policy_loss", "train/critic/value_loss", "train/actor/grad_norm"] {
        println!("         {key:44} {:?} {:?}", cpu_metrics.get(key), gpu_metrics.get(key));
    }
    expected.compare("first moments after 1 updates", &gpu, "adam.m", 1e-4);
    expected.compare("networks after 1 updates", &gpu, "policy", 1e-2);
    check_ppo_one_by_one(kind);
    let [first, again] = [(); 2].map(|()| improved_ppo(kind, 8, 0.0, true).0);
    println!("{:8} two runs of 8 updates have the same bits", if first == again { "ok" } else { "DIFFER" });
}

/// One update from each of eight places that the CPU comes to. Where a ReLU opens or closes by rounding, or a ratio is clipped, two trainings
/// part for good, so that updates in a row say little; errors do not add up here, and a kernel that is wrong is wrong in each.
fn check_ppo_one_by_one(kind: &EncoderKind) {
    let mut cpu = ppo(kind, 200, 1);
    let place = std::env::temp_dir().join(format!("policy_gpu_place_{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let mut found: Vec<(f32, String)> = (0..8)
        .map(|_| {
            cpu.save(&place).unwrap();
            let mut gpu = ppo(kind, 200, 1);
            gpu.use_gpu(on_gpu()).unwrap();
            gpu.restore(&place).unwrap();
            for ppo in [&mut cpu, &mut gpu] {
                ppo.add_experience(experience(segment(7, 8, 25, 0.0))).unwrap();
                ppo.improve().unwrap();
            }
            furthest(&checkpoint(&gpu), &checkpoint(&cpu), "adam.m")
        })
        .collect();
    std::fs::remove_dir_all(&place).unwrap();
    found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let ((most, _), (last, at)) = (&found[6], &found[7]);
    let verdict = if *most <= 1e-4 && *last <= 1e-2 { "ok" } else { "TOO FAR" };
    println!(
        "{verdict:8} moments after one update from eight places {most:.2e} in seven (at most 1e-4), {last:.2e} in the last, {at}"
    );
}

/// What moving states in their last bits makes of updates on the CPU.
fn show_rounding(kind: &EncoderKind) {
    let show = |what: String, expected: &Expected, unders: &[&str]| {
        for under in unders {
            let (worst, at) = expected.rounding(under);
            println!("{what:20} {:10} {under:10} {worst:.2e}, worst {at}", readout(kind));
        }
    };
    for updates in [1, 20] {
        let expected = Expected::of(|nudge| improved(sac(kind, 64, updates, nudge), false).0);
        show(format!("SAC, {updates} updates"), &expected, &["adam_m", "networks", "target"]);
    }
    for updates in [1, 8] {
        let expected = Expected::of(|nudge| improved_ppo(kind, updates, nudge, false).0);
        show(format!("PPO, {updates} updates"), &expected, &["adam.m", "policy"]);
    }
}

fn readout(kind: &EncoderKind) -> &'static str {
    match kind {
        EncoderKind::Learned { readout: ConvReadout::Keypoints, .. } => "keypoints",
        _ => "conv",
    }
}

// ---- Times ----

/// Milliseconds of one call, the median of some.
fn median(times: usize, mut call: impl FnMut()) -> f64 {
    call();
    let mut took: Vec<f64> = (0..times)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took[took.len() / 2]
}

fn time_sac(batch: usize, is_gpu: bool) {
    let updates = if is_gpu { 200 } else { 6 };
    let mut sac = sac(&EncoderKind::keypoints(FRAME), batch, updates, 0.0);
    if is_gpu {
        sac.use_gpu(on_gpu()).unwrap();
    }
    let took = median(if is_gpu { 5 } else { 2 }, || drop(sac.improve().unwrap()));
    let device = if is_gpu { "GPU" } else { "CPU" };
    println!(
        "SAC, keypoints, two cameras, batch {batch:3}, {device}: {:8.3} ms an update",
        took / updates as f64
    );
}

fn time_ppo(is_gpu: bool) {
    let mut ppo = ppo(&EncoderKind::learned(FRAME), 800, 4);
    if is_gpu {
        ppo.use_gpu(on_gpu()).unwrap();
    }
    let played = segment(9, 32, 50, 0.0);
    let took = median(if is_gpu { 5 } else { 1 }, || {
        ppo.add_experience(experience(played.clone())).unwrap();
        drop(ppo.improve().unwrap());
    });
    let device = if is_gpu { "GPU" } else { "CPU" };
    println!(
        "PPO, conv, two cameras, 1600 steps, 8 updates of 800, {device}: {took:8.1} ms a step of learning"
    );
}

/// The encoder alone: four groups of 64 images forward, two of them back.
fn time_passes() {
    let layers = [2, 2, 1, 1].map(|stride| ConvLayer { channels: 32, kernel: 3, stride });
    let encoder = ConvEncoder::new(ConvEncoderSpec {
        height: 64,
        width: 64,
        channels: 3,
        layers: layers.to_vec(),
        readout: ConvReadout::Keypoints,
        outputs: 256,
        precision: Precision::F32,
    });
    let mut k = on_gpu();
    for n in [64, 256] {
        let bytes = encoder.inputs();
        let joined = k.floats(2 * n * 512).unwrap();
        let output = Rows { floats: joined, stride: 512, outer: n * 512, inner: 256 };
        let net = GpuConvEncoder::new(&mut k, &encoder, [2, 2, n], output, true).unwrap();
        let params = k.floats(2 * encoder.len()).unwrap();
        let values = [encoder.init(Seed::new(1)), encoder.init(Seed::new(2))].concat();
        k.write(params, &values).unwrap();
        let params = Params { floats: params, inner: encoder.len() };
        let grads = Params { floats: k.floats(2 * encoder.len()).unwrap(), ..params };
        let images = k.floats(4 * n * bytes).unwrap();
        let input = Rows { floats: images, stride: bytes, outer: 2 * n * bytes, inner: n * bytes };
        let forward = k.record(|k| net.forward(k, params, input, 2, n)).unwrap();
        let to = WeightGradients { to: grads, add: false };
        let grad = Rows { floats: joined, stride: 512, outer: 0, inner: 256 };
        let backward = k.record(|k| net.backward(k, params, input, n, grad, to)).unwrap();
        for (what, graph) in [("forward of 4 groups", forward), ("backward of 2 groups", backward)] {
            let took = median(5, || {
                for _ in 0..50 {
                    k.run(graph).unwrap();
                }
                k.read(joined, &mut [0.0]).unwrap();
            });
            println!("encoders, {what} of {n} images: {:.3} ms", took / 50.0);
        }
    }
}
