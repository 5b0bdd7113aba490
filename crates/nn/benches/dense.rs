//! How quick policies and critics are: `cargo bench -p plaudit-nn --bench dense`, or under `bench/dense/compare.py`,
//! which runs PyTorch and Stable-Baselines3 in turns with it.
//!
//! Reads lines `benchmark repeats` from stdin and answers each with the milliseconds of every repetition; without stdin
//! (`-- once`), runs everything and prints the medians. Benchmarks are the names in [`benchmarks`].
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people")]

use std::io::BufRead;
use std::time::Instant;

use plaudit_core::{Rng, Seed};
use plaudit_nn::dense::encoder::{ConvEncoder, ConvEncoderSpec, ConvTape};
use plaudit_nn::dense::{
    Activation, Adam, AdamSettings, Ensemble, EnsembleScratch, EnsembleTape, HeadInputs, LayerSpec, Mlp,
    MlpSpec, Scratch, Tape, clip_grad_norm, polyak, with_spinning_threads,
};
use plaudit_nn::kernels::Precision;

fn main() {
    // Two threads, as the side it is compared with.
    rayon::ThreadPoolBuilder::new().num_threads(2).build_global().unwrap();
    let mut benchmarks = benchmarks();
    if std::env::args().any(|word| word == "once") {
        for (name, benchmark) in &mut benchmarks {
            let mut times = repeat(benchmark, 50);
            times.sort_by(f64::total_cmp);
            println!("{name:28} {:8.3} ms (least {:.3})", times[times.len() / 2], times[0]);
        }
        return;
    }
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (name, repeats) = line.split_once(' ').unwrap();
        let (_, benchmark) = benchmarks.iter_mut().find(|(known, _)| *known == name).unwrap();
        let times = repeat(benchmark, repeats.trim().parse().unwrap());
        println!("{}", times.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
    }
}

type Benchmark = Box<dyn FnMut()>;

fn benchmarks() -> Vec<(&'static str, Benchmark)> {
    use Precision::{Bf16, F32};
    let mut benchmarks: Vec<(&'static str, Benchmark)> = Vec::new();
    for (name, precision) in [("ppo_update", F32), ("ppo_update_bf16", Bf16)] {
        let mut ppo = Ppo::new(precision);
        benchmarks.push((name, Box::new(move || with_spinning_threads(|| ppo.update()))));
    }
    for (name, batch, precision) in
        [("policy_256", 256, F32), ("policy_256_bf16", 256, Bf16), ("policy_1", 1, F32)]
    {
        let mut policy = Policy::new(batch, precision);
        benchmarks.push((name, Box::new(move || policy.act())));
    }
    for (name, precision) in [("sac_update", F32), ("sac_update_bf16", Bf16)] {
        let mut sac = Sac::new(precision);
        benchmarks.push((name, Box::new(move || with_spinning_threads(|| sac.update()))));
    }
    for (name, precision) in [("conv_encoder", F32), ("conv_encoder_bf16", Bf16)] {
        let mut images = EncoderUpdate::new(precision);
        benchmarks.push((name, Box::new(move || images.update())));
    }
    benchmarks
}

fn repeat(benchmark: &mut Benchmark, repeats: usize) -> Vec<f64> {
    benchmark();
    let timed = |_| {
        let start = Instant::now();
        benchmark();
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..repeats).map(timed).collect()
}

fn stack(
    precision: Precision,
    inputs: usize,
    hidden: &[usize],
    activation: Activation,
    outputs: usize,
) -> Mlp {
    let hidden = hidden.iter().map(|width| LayerSpec { activation, ..LayerSpec::linear(*width) });
    let layers = hidden.chain([LayerSpec::linear(outputs)]).collect();
    Mlp::new(MlpSpec { inputs, layers }).with_precision(precision)
}

fn normals(count: usize, rng: &mut Rng) -> Vec<f32> {
    (0..count).map(|_| rng.normal() as f32).collect()
}

/// RLinf's MLPPolicy and its value head on a batch of 4096: losses, gradients, clipping, AdamW.
struct Ppo {
    actor: Mlp,
    critic: Mlp,
    params: Vec<f32>,
    grads: Vec<f32>,
    adam: Adam,
    tape: Tape,
    states: Vec<f32>,
    actions: Vec<f32>,
    old_log_probs: Vec<f32>,
    advantages: Vec<f32>,
    returns: Vec<f32>,
    old_values: Vec<f32>,
}

const STATES: usize = 42;
const ACTIONS: usize = 8;
const BATCH: usize = 4096;

impl Ppo {
    fn new(precision: Precision) -> Self {
        let (actor, critic) = (
            stack(precision, STATES, &[256; 3], Activation::Tanh, ACTIONS),
            stack(precision, STATES, &[256; 3], Activation::Tanh, 1),
        );
        let mut params = actor.init(Seed::new(1));
        params.extend(critic.init(Seed::new(2)));
        params.extend([-0.5; ACTIONS]);
        let mut rng = Seed::new(3).rng();
        let mut sample = |each: usize| normals(BATCH * each, &mut rng);
        Self {
            grads: vec![0.0; params.len()],
            adam: Adam::new(params.len(), AdamSettings { weight_decay: 0.01, ..AdamSettings::default() }),
            tape: Tape::default(),
            states: sample(STATES),
            actions: sample(ACTIONS),
            old_log_probs: sample(1),
            advantages: sample(1),
            returns: sample(1),
            old_values: sample(1),
            actor,
            critic,
            params,
        }
    }

    fn update(&mut self) {
        self.grads.fill(0.0);
        let (nets, log_std) = self.params.split_at(self.actor.len() + self.critic.len());
        let (actor, critic) = nets.split_at(self.actor.len());
        let (net_grads, grad_log_std) = self.grads.split_at_mut(nets.len());
        let (actor_grads, critic_grads) = net_grads.split_at_mut(actor.len());
        let share = 1.0 / BATCH as f32;
        let inv_std: [f32; ACTIONS] = std::array::from_fn(|j| (-log_std[j]).exp());
        let constant: f32 = log_std.iter().map(|log_std| log_std + 0.918_938_5).sum();
        self.actor.forward_backward(actor, &self.states, &mut self.tape, actor_grads, |rows, means, into| {
            for (i, row) in rows.enumerate() {
                let (means, actions) =
                    (&means[i * ACTIONS..][..ACTIONS], &self.actions[row * ACTIONS..][..ACTIONS]);
                let z: [f32; ACTIONS] = std::array::from_fn(|j| (actions[j] - means[j]) * inv_std[j]);
                let log_prob = -0.5 * z.iter().map(|z| z * z).sum::<f32>() - constant;
                let ratio = (log_prob - self.old_log_probs[row]).exp();
                let advantage = self.advantages[row];
                let unclipped = ratio * advantage <= ratio.clamp(0.8, 1.2) * advantage;
                let grad = if unclipped { -ratio * advantage * share } else { 0.0 };
                for j in 0..ACTIONS {
                    into[i * ACTIONS + j] = grad * z[j] * inv_std[j];
                    grad_log_std[j] += grad * (z[j] * z[j] - 1.0);
                }
            }
        });
        self.critic.forward_backward(
            critic,
            &self.states,
            &mut self.tape,
            critic_grads,
            |rows, values, into| {
                let huber = |e: f32| {
                    if e.abs() < 10.0 {
                        (0.5 * e * e, e)
                    } else {
                        (10.0 * (e.abs() - 5.0), 10.0 * e.signum())
                    }
                };
                for (i, row) in rows.enumerate() {
                    let moved = values[i] - self.old_values[row];
                    let plain = huber(values[i] - self.returns[row]);
                    let clipped = huber(self.old_values[row] + moved.clamp(-1.0, 1.0) - self.returns[row]);
                    let gradient = if plain.0 >= clipped.0 {
                        plain.1
                    } else if moved.abs() < 1.0 {
                        clipped.1
                    } else {
                        0.0
                    };
                    into[i] = gradient * share;
                }
            },
        );
        clip_grad_norm(&mut self.grads, 0.5);
        self.adam.step(&mut self.params, &self.grads, 3e-4);
    }
}

/// The policy acting for so many environments.
struct Policy {
    net: Mlp,
    params: Vec<f32>,
    states: Vec<f32>,
    scratch: Scratch,
}

impl Policy {
    fn new(batch: usize, precision: Precision) -> Self {
        let net = stack(precision, STATES, &[256; 3], Activation::Tanh, ACTIONS);
        let states = normals(batch * STATES, &mut Seed::new(4).rng());
        Self { params: net.init(Seed::new(1)), net, states, scratch: Scratch::default() }
    }

    fn act(&mut self) {
        self.net.infer(&self.params, &self.states, self.states.len() / STATES, &mut self.scratch);
    }
}

/// Soft actor-critic as Stable-Baselines3 has it for Pendulum: 256 x 256 with ReLU, two critics, a learned temperature.
struct Sac {
    actor: Mlp,
    critics: Ensemble,
    actor_params: Vec<f32>,
    critic_params: Vec<f32>,
    targets: Vec<f32>,
    adams: [Adam; 3],
    log_alpha: [f32; 1],
    replay: Vec<[f32; 8]>,
    rng: Rng,
    memory: SacMemory,
}

#[derive(Default)]
struct SacMemory {
    tape: Tape,
    critic_tape: EnsembleTape,
    scratch: Scratch,
    critic_scratch: EnsembleScratch,
    grads: [Vec<f32>; 2],
    rows: [Vec<f32>; 6],
}

/// A sampled action, its log-probability, and what the backward pass needs.
#[derive(Clone, Copy)]
struct SampledAction {
    action: f32,
    log_prob: f32,
    noise: f32,
    std: f32,
    log_std_inside: bool,
}

fn sample(outputs: &[f32], rng: &mut Rng) -> SampledAction {
    let (mean, log_std) = (outputs[0], outputs[1].clamp(-20.0, 2.0));
    let (noise, std) = (rng.normal() as f32, log_std.exp());
    let action = (mean + std * noise).tanh();
    let log_prob = -0.5 * noise * noise - log_std - 0.918_938_5 - (1.0 - action * action + 1e-6).ln();
    SampledAction { action, log_prob, noise, std, log_std_inside: log_std == outputs[1] }
}

impl Sac {
    const BATCH: usize = 256;

    fn new(precision: Precision) -> Self {
        let actor = stack(precision, 3, &[256; 2], Activation::Relu, 2);
        let critics = Ensemble::new(stack(precision, 4, &[256; 2], Activation::Relu, 1), 2);
        let (actor_params, critic_params) = (actor.init(Seed::new(1)), critics.init(Seed::new(2)));
        let adam = |len| Adam::new(len, AdamSettings::default());
        let mut rng = Seed::new(5).rng();
        Self {
            adams: [adam(actor_params.len()), adam(critic_params.len()), adam(1)],
            targets: critic_params.clone(),
            log_alpha: [0.0],
            replay: (0..10_000).map(|_| std::array::from_fn(|_| rng.normal() as f32)).collect(),
            memory: SacMemory {
                grads: [vec![0.0; actor_params.len()], vec![0.0; critic_params.len()]],
                ..SacMemory::default()
            },
            rng,
            actor,
            critics,
            actor_params,
            critic_params,
        }
    }

    fn update(&mut self) {
        let Self { actor, critics, memory, rng, .. } = self;
        let SacMemory {
            tape,
            critic_tape,
            scratch,
            critic_scratch,
            grads: [actor_grads, critic_grads],
            rows,
        } = memory;
        let [states, taken, next_states, next_pairs, grad_out, grad_pairs] = rows;
        let (batch, share) = (Self::BATCH, 1.0 / Self::BATCH as f32);
        let alpha = self.log_alpha[0].exp();
        [&mut *states, taken, next_states, next_pairs].into_iter().for_each(Vec::clear);
        let mut rewards = [0.0; Self::BATCH];
        for reward in &mut rewards {
            let row = self.replay[rng.below(self.replay.len())];
            states.extend_from_slice(&row[..3]);
            taken.extend_from_slice(&row[..4]);
            next_states.extend_from_slice(&row[4..7]);
            *reward = row[7];
        }

        // Critics: towards the reward plus the targets' value of the next action.
        let outputs = actor.infer(&self.actor_params, next_states, batch, scratch);
        let mut next_log_probs = [0.0; Self::BATCH];
        for (i, outputs) in outputs.chunks_exact(2).enumerate() {
            let sampled = sample(outputs, rng);
            next_pairs.extend_from_slice(&next_states[i * 3..][..3]);
            next_pairs.push(sampled.action);
            next_log_probs[i] = sampled.log_prob;
        }
        let next = critics.infer(&self.targets, &[0, 1], next_pairs, batch, critic_scratch);
        let goals: [f32; Self::BATCH] = std::array::from_fn(|i| {
            rewards[i] + 0.99 * (next[i].min(next[batch + i]) - alpha * next_log_probs[i])
        });
        let values = critics.forward(&self.critic_params, HeadInputs::Shared(taken), batch, critic_tape);
        grad_out.clear();
        grad_out.extend(values.iter().enumerate().map(|(i, q)| (q - goals[i % batch]) * share));
        critics.backward_overwrite(&self.critic_params, critic_tape, grad_out, critic_grads, None);
        self.adams[1].step(&mut self.critic_params, critic_grads, 3e-4);

        // Actor: towards higher Q-values and higher entropy.
        let outputs = actor.forward(&self.actor_params, states, batch, tape);
        let sampled: [SampledAction; Self::BATCH] =
            std::array::from_fn(|i| sample(&outputs[2 * i..2 * i + 2], rng));
        taken.chunks_exact_mut(4).zip(&sampled).for_each(|(pair, sampled)| pair[3] = sampled.action);
        let values = critics.forward(&self.critic_params, HeadInputs::Shared(taken), batch, critic_tape);
        let first: [bool; Self::BATCH] = std::array::from_fn(|i| values[i] <= values[batch + i]);
        grad_out.clear();
        grad_out.extend((0..2 * batch).map(|i| if first[i % batch] == (i < batch) { -share } else { 0.0 }));
        grad_pairs.resize(4 * batch, 0.0);
        critics.backward_inputs(&self.critic_params, critic_tape, grad_out, grad_pairs);
        grad_out.clear();
        let mut mean_log_prob = 0.0;
        for (sampled, grad) in sampled.iter().zip(grad_pairs.chunks_exact(4)) {
            let gradient = 1.0 - sampled.action * sampled.action;
            let of_squash = 2.0 * sampled.action * gradient / (gradient + 1e-6);
            let of_raw = grad[3] * gradient + alpha * share * of_squash;
            let of_log_std = of_raw * sampled.noise * sampled.std - alpha * share;
            grad_out.extend([of_raw, if sampled.log_std_inside { of_log_std } else { 0.0 }]);
            mean_log_prob += sampled.log_prob * share;
        }
        actor.backward_overwrite(&self.actor_params, tape, grad_out, actor_grads, None);
        self.adams[0].step(&mut self.actor_params, actor_grads, 3e-4);
        self.adams[2].step(&mut self.log_alpha, &[-(mean_log_prob - 1.0)], 3e-4);
        polyak(&mut self.targets, &self.critic_params, 0.005);
    }
}

/// The small convolutional encoder on 256 images of 64 x 64: outputs and gradients.
struct EncoderUpdate {
    encoder: ConvEncoder,
    params: Vec<f32>,
    grads: Vec<f32>,
    images: Vec<u8>,
    tape: ConvTape,
    grad_out: Vec<f32>,
}

impl EncoderUpdate {
    const BATCH: usize = 256;

    fn new(precision: Precision) -> Self {
        let spec = ConvEncoderSpec::drq(64, 64, 3, 50);
        let encoder = ConvEncoder::new(ConvEncoderSpec { precision, ..spec });
        let mut rng = Seed::new(6).rng();
        let params = encoder.init(Seed::new(1));
        Self {
            grads: vec![0.0; params.len()],
            images: (0..Self::BATCH * encoder.inputs()).map(|_| rng.u32() as u8).collect(),
            grad_out: normals(Self::BATCH * encoder.outputs(), &mut rng),
            tape: ConvTape::default(),
            encoder,
            params,
        }
    }

    fn update(&mut self) {
        self.encoder.forward(&self.params, &self.images, Self::BATCH, &mut self.tape);
        self.grads.fill(0.0);
        self.encoder.backward(&self.params, &mut self.tape, &self.grad_out, &mut self.grads);
    }
}
