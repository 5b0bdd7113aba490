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

/// All stages, in their order, with everything below `dir`.
pub(super) fn stages(dir: &Path, seed: u64) -> Vec<Stage> {
    let builder = StageBuilder { dir, seed };
    builder.episodes().into_iter().chain(builder.reward()).chain(builder.policy()).collect()
}

/// What every stage's words are made of.
struct StageBuilder<'a> {
    dir: &'a Path,
    seed: u64,
}

impl StageBuilder<'_> {
    fn within(&self, name: &str) -> String {
        self.dir.join(name).display().to_string().replace(' ', BLANK_IN_WORD)
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

    fn cloning(&self) -> Vec<String> {
        words(&[&format!("algorithm.cloning.load_path={}", self.demos())])
    }

    /// A clone plays so many episodes.
    fn playing(&self, episodes: u32, env_seed: u64, into: &str, run: &str) -> Vec<String> {
        let own = words(&[
            &format!("train pickcube_play env.train.total_num_envs={episodes}"),
            &format!("actor.seed={} env.train.seed={env_seed}", self.seed),
            &format!("env.train.data_collection.save_dir={into}"),
            &format!("runner.logger.log_path={}", self.within(run)),
        ]);
        [own, self.cloning()].concat()
    }

    /// The script misses so many times.
    fn missing(&self, episodes: u32, env_seed: u64, into: &str, run: &str) -> Vec<String> {
        words(&[
            &format!("collect pickcube_misses --episodes {episodes} env.eval.total_num_envs={episodes}"),
            &format!("env.eval.seed={env_seed}"),
            &format!("env.eval.data_collection.save_dir={into}"),
            &format!("runner.logger.log_path={}", self.within(run)),
        ])
    }

    /// Episodes to learn from, and episodes to be audited on.
    fn episodes(&self) -> Vec<Stage> {
        let (seed, demos) = (self.seed, self.demos());
        vec![
            Stage {
                name: "demos",
                title: "A script shows how PickCube is done",
                meaning: "An arm lifts a red cube to a green goal and holds it there. The script knows the simulator's state; what \
                      is kept are images, states, actions, and whether the task is solved.",
                command: words(&[
                    "collect pickcube_demos --episodes 40 env.eval.total_num_envs=40",
                    &format!("env.eval.data_collection.target_success=40 env.eval.seed={seed}"),
                    &format!("env.eval.data_collection.save_dir={demos}"),
                    &format!("runner.logger.log_path={}", self.within("collect")),
                ]),
                accepted: None,
            },
            Stage {
                name: "play",
                title: "A clone of the script plays, and misses",
                meaning: "A network copies the demonstrations. Its grasps of nothing and its near misses are what a reward model must \
                      have seen; without them, a policy would find them and be rewarded.",
                command: self.playing(120, seed, &self.within("episodes/play"), PLAY),
                accepted: None,
            },
            Stage {
                name: "misses",
                title: "The script misses on purpose, and stands still there",
                meaning: "The cube beside the goal, an empty hand at it, and the like: what looks most like success and is none.",
                command: self.missing(80, seed + 1000, &self.within("episodes/misses"), "collect_misses"),
                accepted: None,
            },
            Stage {
                name: "held out",
                title: "The clone plays once more, for the audit",
                meaning: "Other starts, and the noise with which a policy will explore. The reward model never learns from these episodes.",
                command: [
                    self.playing(120, seed + 2000, &self.within("held_out/play"), "held_out_play"),
                    words(&["algorithm.cloning.std=0.1"]),
                ]
                .concat(),
                accepted: None,
            },
            Stage {
                name: "held-out misses",
                title: "The script misses once more, for the audit",
                meaning: "Other starts, other ways to miss.",
                command: self.missing(
                    60,
                    seed + 3000,
                    &self.within("held_out/misses"),
                    "collect_held_out_misses",
                ),
                accepted: None,
            },
        ]
    }

    /// A model of success, and whether it can be trusted.
    fn reward(&self) -> Vec<Stage> {
        let (seed, model, held, reward) = (self.seed, self.model(), self.held_out(), self.within("reward"));
        vec![
            Stage {
                name: "dataset",
                title: "What the episodes hold",
                meaning: "Labels, lengths, cameras, and what looks wrong, with a contact sheet. Training splits them by episode: \
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
                meaning: "From what two cameras see. Whether the arm stands still, the robot knows itself, and the model need not guess: \
                      `data.guards`. Average precision on episodes it did not learn from is the number to watch.",
                command: words(&[
                    &format!("reward train reward_training data.data_path={}", self.within("episodes")),
                    "data.num_samples_per_episode=0 data.fail_success_ratio=3 data.augment.brightness=0.2 data.augment.hue=0.03 data.guards=[\"abs(state[9:16])<=0.2\"]",
                    "actor.model.image_keys=[main_images,extra_view_images] actor.model.image_size=[3,64,64]",
                    &format!("actor.seed={seed} data.seed={seed}"),
                    "runner.max_steps=500 runner.val_check_interval=125 runner.save_interval=125",
                    &format!("runner.logger.log_path={reward}"),
                ]),
                accepted: None,
            },
            Stage {
                name: "audit",
                title: "Can it be trusted?",
                meaning: "Scores every frame of the held-out episodes, picks the threshold with a guaranteed false-alarm rate, \
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

    /// A policy that the model rewards, and a page about it.
    fn policy(&self) -> Vec<Stage> {
        let (seed, model) = (self.seed, self.model());
        vec![
            Stage {
                name: "policy",
                title: "PPO starts from the clone, rewarded by the model alone",
                meaning: "The model scores the last frame of each episode, and its score is the reward if the arm stands still. A monitor \
                      looks for hacking, without ground truth. `eval/success_once` is ground truth, which is no part of the reward.",
                command: [
                    words(&[
                        &format!("train pickcube_ppo_resnet_reward reward.model.model_path={model}"),
                        &format!("actor.seed={seed} env.train.seed={seed}"),
                        "reward.hacking_monitor.every=1 reward.hacking_monitor.compare_with=none",
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
                meaning: "Curves of ground truth beside the model's own, the audit, and how long everything took.",
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

/// Stands for a blank of the folder's name, which does not part words.
const BLANK_IN_WORD: &str = "\u{1f}";

/// Words of a command line, from pieces of it.
fn words(pieces: &[&str]) -> Vec<String> {
    pieces.iter().flat_map(|piece| piece.split(' ')).map(|word| word.replace(BLANK_IN_WORD, " ")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use crate::cli::Cli;
    use crate::config;
    use crate::load::RequestedConfig;

    /// What the demo prints can be typed, and every config it names can be resolved with the keys it sets.
    #[test]
    fn every_stage_is_a_command_that_a_user_can_type() {
        for stage in stages(Path::new("demo"), 3) {
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
            let args = crate::cli::ConfigArgs { words, ..Default::default() };
            let asked = RequestedConfig::from_args(&args).unwrap();
            config::load(&asked.disk, &asked.request).unwrap();
        }
    }

    #[test]
    fn the_guide_has_every_command_word_for_word() {
        let guide = include_str!("../../../../../docs/guide.md").replace("\\\n", " ").replace('\'', "");
        let guide = guide.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        for stage in stages(Path::new("plaudit-demo"), 1) {
            let command = format!("plaudit {}\n", stage.command.join(" "));
            assert!(guide.contains(&command), "docs/guide.md does not say {command}");
        }
    }

    #[test]
    fn stages_have_names_of_their_own() {
        let stages = stages(Path::new("demo"), 3);
        for (at, stage) in stages.iter().enumerate() {
            assert!(stages[..at].iter().all(|other| other.name != stage.name), "{}", stage.name);
        }
    }
}
