//! What the demo does, stage by stage, in the words of the command line.

use std::path::Path;

/// The run whose policy is the clone, before it learns by reward.
pub(super) const PLAY: &str = "play";
/// The run that learns by the learned reward.
pub(super) const POLICY: &str = "policy";

/// One stage.
pub(super) struct Stage {
    /// How `demo.json` calls it.
    pub(super) name: &'static str,
    /// What it does.
    pub(super) title: &'static str,
    /// Why, and what to look at.
    pub(super) meaning: &'static str,
    /// The words after `plaudit`.
    pub(super) command: Vec<String>,
    /// An exit code that is an answer and no failure.
    pub(super) accepted: Option<i32>,
}

/// How much of everything.
pub(super) struct Scale {
    demos: u32,
    cloning_steps: u32,
    episodes: u32,
    wild: u32,
    held_out: u32,
    reward_steps: u32,
    policy_epochs: u32,
}

impl Scale {
    /// Four minutes on two cores.
    pub(super) const FULL: Self = Self {
        demos: 40,
        cloning_steps: 2000,
        episodes: 120,
        wild: 60,
        held_out: 96,
        reward_steps: 600,
        policy_epochs: 40,
    };
    /// A minute and a half.
    pub(super) const QUICK: Self = Self {
        demos: 40,
        cloning_steps: 1000,
        episodes: 40,
        wild: 20,
        held_out: 48,
        reward_steps: 100,
        policy_epochs: 10,
    };
}

/// All stages, in their order, with everything below `dir`.
pub(super) fn stages(dir: &Path, seed: u64, scale: &Scale) -> Vec<Stage> {
    let plan = Plan { dir, seed, scale };
    plan.episodes().into_iter().chain(plan.reward()).chain(plan.policy()).collect()
}

/// What every stage's words are made of.
struct Plan<'a> {
    dir: &'a Path,
    seed: u64,
    scale: &'a Scale,
}

impl Plan<'_> {
    fn within(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn demos(&self) -> String {
        self.within("episodes/demos")
    }

    fn held_out(&self) -> String {
        self.within("held_out")
    }

    fn model(&self) -> String {
        self.within("reward/checkpoints/best_model")
    }

    fn cameras(&self, which: &str) -> String {
        format!("env.{which}.init_params.sensor_configs={{width:64,height:64,hand_camera:{{}}}}")
    }

    fn cloning(&self) -> Vec<String> {
        words(&[
            &format!("algorithm.cloning.load_path={}", self.demos()),
            &format!("algorithm.cloning.steps={}", self.scale.cloning_steps),
        ])
    }

    /// A clone plays so many episodes.
    fn playing(&self, episodes: u32, env_seed: u64, into: &str, run: &str) -> Vec<String> {
        let own = words(&[
            &format!("train pickcube_play env.train.total_num_envs={episodes}"),
            &format!("actor.seed={} env.train.seed={env_seed}", self.seed),
            &self.cameras("train"),
            &format!("env.train.data_collection.save_dir={into}"),
            &format!("runner.logger.log_path={}", self.within(run)),
        ]);
        [own, self.cloning()].concat()
    }

    /// Episodes to learn from, and episodes to be audited on.
    fn episodes(&self) -> Vec<Stage> {
        let (scale, seed, demos, held) = (self.scale, self.seed, self.demos(), self.held_out());
        vec![
            Stage {
                name: "demos",
                title: "A script shows how PickCube is done",
                meaning: "An arm lifts a red cube to a green goal and holds it there. The script knows the simulator's state; what \
                      is kept are pictures, states, actions, and whether the task is solved.",
                command: words(&[
                    &format!(
                        "collect pickcube_demos --episodes {0} env.eval.total_num_envs={0}",
                        scale.demos
                    ),
                    &format!(
                        "env.eval.data_collection.target_success={} env.eval.ignore_terminations=true",
                        scale.demos
                    ),
                    &format!("env.eval.seed={seed}"),
                    &self.cameras("eval"),
                    &format!("env.eval.data_collection.save_dir={demos}"),
                    &format!("runner.logger.log_path={}", self.within("collect")),
                ]),
                accepted: None,
            },
            Stage {
                name: "play",
                title: "A clone of the script plays, and misses",
                meaning: "A network copies the demonstrations. Its grasps of nothing and its near misses are what a reward model must \
                      have seen; without them, a policy would find them and be paid.",
                command: self.playing(scale.episodes, seed, &self.within("episodes/play"), PLAY),
                accepted: None,
            },
            Stage {
                name: "wild play",
                title: "The clone plays with much noise",
                meaning: "More ways to fail. The more a model has seen, the less a policy can surprise it.",
                command: [
                    self.playing(scale.wild, seed + 1000, &self.within("episodes/wild"), "wild_play"),
                    words(&["algorithm.cloning.std=0.3"]),
                ]
                .concat(),
                accepted: None,
            },
            Stage {
                name: "held out",
                title: "The clone plays once more, for the audit",
                meaning: "Other starts, other noise. The reward model never learns from these episodes.",
                command: self.playing(scale.held_out, seed + 2000, &held, "held_out_play"),
                accepted: None,
            },
        ]
    }

    /// A model of success, and whether it can be trusted.
    fn reward(&self) -> Vec<Stage> {
        let (scale, seed, model, held) = (self.scale, self.seed, self.model(), self.held_out());
        let (reward, every) = (self.within("reward"), scale.reward_steps / 4);
        vec![
            Stage {
                name: "dataset",
                title: "What the episodes hold",
                meaning: "Labels, lengths, cameras, and what looks wrong, with a sheet of pictures. Training splits them by episode: \
                      frames of one episode are never on both sides.",
                command: words(&[&format!(
                    "dataset inspect {} --sheet {}",
                    self.within("episodes"),
                    self.within("episodes.png")
                )]),
                accepted: None,
            },
            Stage {
                name: "reward",
                title: "A ResNet-18 learns what success looks like",
                meaning: "From what two cameras see, and from nothing else. Average precision on episodes it did not learn from is \
                      the number to watch.",
                command: words(&[
                    &format!("reward train reward_training data.data_path={}", self.within("episodes")),
                    "data.num_samples_per_episode=0 data.fail_success_ratio=3",
                    "actor.model.image_keys=[main_images,extra_view_images] actor.model.image_size=[3,64,64]",
                    &format!("actor.seed={seed} data.seed={seed}"),
                    &format!("runner.max_steps={} runner.val_check_interval={every}", scale.reward_steps),
                    &format!("runner.save_interval={every}"),
                    &format!("runner.logger.log_path={reward}"),
                ]),
                accepted: None,
            },
            Stage {
                name: "audit",
                title: "Can it be trusted?",
                meaning: "Scores every frame of the held-out episodes, picks the threshold whose false alarms are rare with a proof, \
                      and tries to fool the model. The verdict is strict; the demo goes on either way.",
                command: words(&[
                    &format!(
                        "reward audit {model} {held} --alarm last-frame --max-fpr 0.05 --stress-frames 50 --seed {seed}"
                    ),
                    &format!("--output {}", self.within("audit")),
                ]),
                accepted: Some(3),
            },
        ]
    }

    /// A policy that the model pays, and a page about it.
    fn policy(&self) -> Vec<Stage> {
        let (scale, seed, model) = (self.scale, self.seed, self.model());
        vec![
            Stage {
                name: "policy",
                title: "PPO goes on from the clone, paid by the model alone",
                meaning: "The model looks at the last picture of each episode and pays what it believes. `eval/success_once` is the \
                      simulator's truth, which nobody is paid by.",
                command: [
                    words(&[
                        &format!("train pickcube_ppo_resnet_reward reward.model.model_path={model}"),
                        &format!(
                            "actor.seed={seed} env.train.seed={seed} runner.max_epochs={}",
                            scale.policy_epochs
                        ),
                        &format!("runner.logger.log_path={}", self.within(POLICY)),
                    ]),
                    self.cloning(),
                ]
                .concat(),
                accepted: None,
            },
            Stage {
                name: "report",
                title: "A page about it",
                meaning: "Curves of truth beside the model's opinion, the audit, and how long everything took.",
                command: words(&[&format!(
                    "report {} --output {}",
                    self.within(POLICY),
                    self.within("report.html")
                )]),
                accepted: None,
            },
        ]
    }
}

/// Words of a command line, from pieces of it. No piece holds a blank within a word.
fn words(pieces: &[&str]) -> Vec<String> {
    pieces.iter().flat_map(|piece| piece.split(' ')).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use crate::cli::Cli;
    use crate::config;
    use crate::load::Asked;

    /// What the demo prints can be typed, and every config it names can be resolved with the keys it sets.
    #[test]
    fn every_stage_is_a_command_that_a_user_can_type() {
        for scale in [Scale::FULL, Scale::QUICK] {
            for stage in stages(Path::new("demo"), 3, &scale) {
                let words = ["plaudit".to_string()].into_iter().chain(stage.command.clone());
                Cli::try_parse_from(words).unwrap();
                let recipe = stage
                    .command
                    .iter()
                    .position(|word| word.starts_with("pickcube_") || word == "reward_training");
                let Some(recipe) = recipe else { continue };
                let (flags, words): (Vec<_>, Vec<_>) = stage.command[recipe..]
                    .iter()
                    .cloned()
                    .partition(|word| !word.contains('=') && word != &stage.command[recipe]);
                assert!(flags.len() <= 2, "only collect has a flag: {flags:?}");
                let args = crate::cli::ConfigArgs { words, config_path: None, config_name: None };
                let asked = Asked::from_args(&args).unwrap();
                config::load(&asked.disk, &asked.request).unwrap();
            }
        }
    }

    #[test]
    fn stages_have_names_of_their_own() {
        let stages = stages(Path::new("demo"), 3, &Scale::FULL);
        for (at, stage) in stages.iter().enumerate() {
            assert!(stages[..at].iter().all(|other| other.name != stage.name), "{}", stage.name);
        }
    }
}
