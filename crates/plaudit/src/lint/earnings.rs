//! Rules about what a reward encourages, by what each kind of policy would earn.

use plaudit_reward::SuccessThreshold;

use super::simulation::{Behaviour, Earnings, episode_steps, interval, own_threshold};
use super::{Findings, Remark, Severity};
use crate::build::env_weight;
use crate::config::blocks::algorithm::{Bootstrap, LossType};
use crate::config::blocks::reward::{RewardMode, RewardSettings, RewardType};

/// By how much more another policy must earn than one that succeeds, to be worth a word.
const MARGIN: f64 = 1.05;

/// A reward that does not depend on what a policy does, or that success does not raise.
pub(super) fn success_is_rewarded(findings: &mut Findings<'_>) {
    let Some(earnings) = findings.earnings.clone() else { return };
    let Some(never) = earnings.of(Behaviour::Never) else { return };
    let reward = &findings.loaded.config.reward;
    let tolerance = earnings.tolerance();
    let is_same = |earned: f64| (earned - never.learned).abs() <= tolerance;
    let best = earnings.best_success(|earned| earned.reward);
    let cause = Cause::of(findings, &earnings);
    let alone = env_weight(reward) == 0.0 && reward.model.gt_success_bonus == 0.0;
    let earned = format!("a policy that succeeds earns {best:.2}, one that never does {:.2}", never.reward);
    if earnings.policies.iter().all(|policy| is_same(policy.learned)) {
        let severity = if alone { Severity::Error } else { Severity::Warning };
        let why = match alone {
            true => "whatever a policy does, it earns the same: nothing can be learned from that",
            false => {
                "whatever a policy does, the model adds the same: only the environment's own numbers teach anything"
            }
        };
        let remark = Remark { what: cause.what, why: why.into(), fix: cause.fix };
        findings.add("constant-reward", severity, &cause.key, remark);
        return;
    }
    let (code, moral) = match best {
        _ if potential_alone(reward) => return, // which has a rule of its own
        best if best < never.reward - tolerance => ("success-penalized", "a policy learns to avoid success"),
        best if best <= never.reward + tolerance => {
            ("success-unrewarded", "nothing leads a policy to success")
        }
        _ => return,
    };
    let remark = Remark { what: cause.what, why: format!("{earned}: {moral}"), fix: cause.fix };
    findings.add(code, Severity::Error, &cause.key, remark);
}

/// Staying near success for more than success itself, which ends the episode.
pub(super) fn hovering_near_success(findings: &mut Findings<'_>) {
    let Some(earnings) = findings.earnings.clone() else { return };
    let config = &findings.loaded.config;
    let ends_early = earnings.ends_at_success && config.algorithm.bootstrap_type == Bootstrap::Standard;
    // A judge rewards progress, and hovering makes none; where windows end decides the rest.
    let judges_windows = config.reward.main_term().judges_windows();
    if !ends_early || judges_windows || potential_alone(&config.reward) || has_other_finding(findings) {
        return;
    }
    // Who succeeds late has hovered before.
    let prompt = [Behaviour::SucceedsOnce, Behaviour::SucceedsAndStays].map(|kind| earnings.of(kind));
    let best = prompt.into_iter().flatten().map(|earned| earned.discounted).fold(f64::NEG_INFINITY, f64::max);
    let tempting = |behaviour| {
        let earned = earnings.of(behaviour)?;
        let is_more = earned.discounted > best * MARGIN + earnings.tolerance() && best >= 0.0;
        is_more.then_some(earned.discounted)
    };
    let below = tempting(Behaviour::HoversBelow);
    let Some(hovering) = below.or_else(|| tempting(Behaviour::HoversAbove)) else { return };
    let steps = earnings.steps;
    let fix = "set reward_mode: terminal, or env.train.ignore_terminations: true";
    if below.is_some() {
        findings.add("rewards-hovering", Severity::Warning, "reward.reward_mode", Remark {
            what: "near misses are rewarded at every step, and success ends the episode".into(),
            why: format!("hovering just below success for {steps} steps is worth {hovering:.2}, succeeding at most {best:.2}: a policy learns to almost succeed"),
            fix: format!("set a reward_threshold, {}", fix.trim_start_matches("set ")),
        });
        return;
    }
    // A threshold of the checkpoint is one that somebody measured: there, false successes are rare.
    let severity = if is_measured(findings) { Severity::Note } else { Severity::Warning };
    findings.add("rewards-hovering", severity, "reward.reward_mode", Remark {
        what: "every step above the threshold is rewarded, and success ends the episode".into(),
        why: format!("where the model sees success and the environment does not, staying there for {steps} steps is worth {hovering:.2}, succeeding at most {best:.2}"),
        fix: fix.into(),
    });
}

/// Bounds of the return that the rewards exceed.
pub(super) fn target_range(findings: &mut Findings<'_>) {
    let algorithm = &findings.loaded.config.algorithm;
    let (Some(earnings), Some([low, high])) = (findings.earnings.clone(), algorithm.target_range) else {
        return;
    };
    if algorithm.loss_type != LossType::Sac {
        return;
    }
    let ranges = earnings.policies.iter().map(|earned| earned.return_range);
    let [lowest, highest] = ranges.fold([0.0f64; 2], |all, one| [all[0].min(one[0]), all[1].max(one[1])]);
    let slack = 1e-3 * (high - low).abs() + earnings.tolerance();
    if highest <= high + slack && lowest >= low - slack {
        return;
    }
    let weight = findings.loaded.config.reward.reward_weight;
    let scale = (high / highest).min(if lowest < 0.0 { low / lowest } else { f64::INFINITY });
    let scaled = if scale > 0.0 && scale.is_finite() {
        format!(", or lower reward.reward_weight from {weight} to about {:.3}", weight * scale)
    } else {
        String::new()
    };
    findings.add("target-range-clips", Severity::Warning, "algorithm.target_range", Remark {
        what: format!("[{low}, {high}], and returns reach from {lowest:.2} to {highest:.2}"),
        why: "targets of the critics are clipped to the range: what lies beyond it looks all the same to them".into(),
        fix: format!("widen it to [{lowest:.2}, {highest:.2}] at least, or leave it out{scaled}"),
    });
}

/// A potential with nothing to shape.
pub(super) fn potential_without_reward(findings: &mut Findings<'_>) {
    let reward = &findings.loaded.config.reward;
    if !findings.uses_reward_model() || !potential_alone(reward) {
        return;
    }
    findings.add("potential-alone", Severity::Warning, "reward.reward_mode", Remark {
        what: "`potential` shapes another reward, and there is no other".into(),
        why: "the changes of a score add up to where the episode began and ended, and to nothing once success ends it: by design every policy earns the same".into(),
        fix: "add the reward of success: a further term (reward.terms) with reward_mode: terminal, or use per_step or terminal here".into(),
    });
}

/// Windows that an episode cannot fill.
pub(super) fn windows_beyond_the_episode(findings: &mut Findings<'_>) {
    let reward = &findings.loaded.config.reward;
    let adds_votes = reward.main_term().judges_windows() && reward.reward_mode == RewardMode::Potential;
    let looks = reward.reward_mode == RewardMode::HistoryBuffer || adds_votes;
    if !findings.uses_reward_model() || !looks || has_other_finding(findings) {
        return;
    }
    let steps = episode_steps(findings.loaded);
    let names: Vec<_> = reward
        .model
        .history_buffers
        .iter()
        .map(|(name, buffer)| (name.clone(), buffer.history_size))
        .collect();
    for (name, size) in names.into_iter().filter(|(_, size)| *size > steps) {
        let key = format!("reward.model.history_buffers.{name}.history_size");
        findings.add(
            "window-never-full",
            Severity::Warning,
            &key,
            Remark {
                what: format!("{size} frames, and an episode has {steps} steps"),
                why: "the model is shown shorter windows than it was made for".into(),
                fix: format!("set it to {steps} or less, or make episodes longer"),
            },
        );
    }
}

/// Whether the reward of a classifier is a potential and nothing else.
fn potential_alone(reward: &RewardSettings) -> bool {
    let main = reward.main_term();
    let further =
        reward.terms.values().any(|term| term.weight != 0.0 && term.reward_mode != RewardMode::Potential);
    let other = env_weight(reward) != 0.0 || reward.model.gt_success_bonus != 0.0 || further;
    let adds_up = main.judges_windows() // whose votes are worth something where an episode ends
        && reward.model.potential_end == plaudit_reward::AtTermination::Keep;
    reward.reward_mode == RewardMode::Potential && !adds_up && !other
}

/// Whether one of the first rules already says what is wrong with the amounts.
fn has_other_finding(findings: &Findings<'_>) -> bool {
    let codes = ["constant-reward", "success-penalized", "success-unrewarded"];
    findings.found.iter().any(|finding| codes.contains(&finding.code))
}

/// Whether the threshold in use is the checkpoint's own.
fn is_measured(findings: &Findings<'_>) -> bool {
    let main = findings.loaded.config.reward.main_term();
    main.hysteresis.is_none()
        && main.reward_threshold == SuccessThreshold::Checkpoint
        && own_threshold(findings.loaded, &main).is_some()
}

/// The key that most likely makes a reward flat, and what to do about it.
struct Cause {
    key: String,
    what: String,
    fix: String,
}

impl Cause {
    fn of(findings: &Findings<'_>, earnings: &Earnings) -> Self {
        let reward = &findings.loaded.config.reward;
        by_amount(reward)
            .or_else(|| by_duration(reward, earnings))
            .or_else(|| by_threshold(reward, earnings))
            .or_else(|| by_windows(reward, earnings))
            .unwrap_or_else(|| {
                cause(
                    "reward",
                    "its rules give success no more than anything else",
                    "see the table of what each policy would earn",
                )
            })
    }
}

fn cause(key: &str, what: impl Into<String>, fix: impl Into<String>) -> Cause {
    Cause { key: key.into(), what: what.into(), fix: fix.into() }
}

/// Factors and amounts.
fn by_amount(reward: &RewardSettings) -> Option<Cause> {
    let RewardSettings { reward_weight, success_reward, fail_reward, .. } = *reward;
    if reward_weight == 0.0 {
        return Some(cause("reward.reward_weight", "the model's reward is multiplied with 0", "set it to 1"));
    }
    if reward_weight < 0.0 {
        let what = format!("the model's reward is multiplied with {reward_weight}");
        return Some(cause("reward.reward_weight", what, "make it positive"));
    }
    if reward.reward_type == RewardType::Binary && success_reward <= fail_reward {
        let what = format!("success is rewarded with {success_reward}, everything else with {fail_reward}");
        return Some(cause("reward.success_reward", what, "make success_reward the larger of the two"));
    }
    None
}

/// For how long success must last.
fn by_duration(reward: &RewardSettings, earnings: &Earnings) -> Option<Cause> {
    let (hold, steps) = (reward.hold_steps, earnings.steps as u64);
    if hold > steps {
        let what = format!("success must hold for {hold} steps, and an episode has {steps}");
        return Some(cause("reward.hold_steps", what, format!("set it to less than {steps}")));
    }
    if hold > 1 && earnings.ends_at_success && !reward.standalone_realworld {
        let what =
            format!("success must hold for {hold} steps, and the environment ends the episode at the first");
        return Some(cause(
            "reward.hold_steps",
            what,
            "set env.train.ignore_terminations: true, or hold_steps: 1",
        ));
    }
    None
}

/// Thresholds that part nothing.
fn by_threshold(reward: &RewardSettings, earnings: &Earnings) -> Option<Cause> {
    let key = if reward.hysteresis.is_some() { "reward.hysteresis" } else { "reward.reward_threshold" };
    if earnings.threshold >= 1.0 {
        let what = format!("success is a score above {}, and no score is", earnings.threshold);
        return Some(cause(key, what, "set it below 1, or leave it out for the checkpoint's own"));
    }
    let is_binary = reward.reward_type == RewardType::Binary;
    if is_binary && reward.hysteresis.is_none() && reward.reward_threshold == SuccessThreshold::NoFilter {
        let what = "0: every score counts as success";
        return Some(cause(key, what, "set it as an audit says, or leave it out for the checkpoint's own"));
    }
    None
}

/// Windows that never come.
fn by_windows(reward: &RewardSettings, earnings: &Earnings) -> Option<Cause> {
    let steps = earnings.steps as u64;
    reward.model.history_buffers.iter().find_map(|(name, buffer)| {
        let needed = buffer.min_history_size.max(interval(buffer));
        let key = format!("reward.model.history_buffers.{name}");
        let what = format!("the first window comes after {needed} steps, and an episode has {steps}");
        let fix = format!("set history_size, min_history_size and input_interval to {steps} or less");
        (needed > steps).then(|| cause(&key, what, fix))
    })
}
