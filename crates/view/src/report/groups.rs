//! Which runs are seeds of one experiment, and what tells experiments apart.

use super::{Experiment, Run};

/// Differences that fit a legend.
const IN_LEGEND: usize = 2;
/// A longer legend is a letter, and a table says what it stands for.
const LEGEND_LETTERS: usize = 60;

/// Runs of one name and one config, but for seeds and places, together.
pub(super) fn gather(runs: Vec<Run>) -> Vec<Experiment> {
    let mut experiments: Vec<Experiment> = Vec::new();
    for run in runs {
        let same = |one: &&mut Experiment| {
            one.runs[0].summary.name == run.summary.name && one.runs[0].config == run.config
        };
        match experiments.iter_mut().find(same) {
            Some(experiment) => experiment.runs.push(run),
            None => experiments.push(Experiment { label: String::new(), runs: vec![run] }),
        }
    }
    let labels = labels(&experiments);
    for (experiment, label) in experiments.iter_mut().zip(labels) {
        experiment.label = label;
    }
    experiments
}

/// Keys in which experiments differ.
pub(super) fn differences(experiments: &[Experiment]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (key, _) in experiments.iter().flat_map(|one| &one.runs[0].config) {
        let first = value(&experiments[0], key);
        let differs = experiments.iter().any(|one| value(one, key) != first);
        if differs && !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

/// What an experiment's config says about a key.
pub(super) fn value<'a>(experiment: &'a Experiment, key: &str) -> &'a str {
    let found = experiment.runs[0].config.iter().find(|(known, _)| known == key);
    found.map_or("–", |(_, value)| value)
}

/// What each experiment is called in legends: its name if that is its own, else what is different about it.
fn labels(experiments: &[Experiment]) -> Vec<String> {
    let name = |one: &Experiment| one.runs[0].summary.name.clone();
    let names: Vec<String> = experiments.iter().map(name).collect();
    let is_own = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    if names.iter().all(is_own) {
        return names;
    }
    let keys = differences(experiments);
    let short = short_keys(&keys);
    let label = |(number, one): (usize, &Experiment)| {
        let parts: Vec<String> =
            keys.iter().zip(&short).map(|(key, short)| format!("{short}={}", value(one, key))).collect();
        let all = parts.join(", ");
        let text = match all.chars().count() {
            0 => format!("config {}", number + 1),
            letters if parts.len() > IN_LEGEND || letters > LEGEND_LETTERS => {
                format!("config {}", number + 1)
            }
            _ => all,
        };
        let several_names = names.iter().any(|other| *other != names[0]);
        if several_names { format!("{}, {text}", names[number]) } else { text }
    };
    experiments.iter().enumerate().map(label).collect()
}

/// The last words of each key that no other key ends with.
fn short_keys(keys: &[String]) -> Vec<String> {
    let tail = |key: &String| {
        let cuts = key.match_indices('.').map(|(at, _)| at + 1).rev().chain([0]);
        let is_own = |tail: &&str| keys.iter().filter(|other| ends_with_words(other, tail)).count() == 1;
        cuts.map(|at| &key[at..]).find(is_own).unwrap_or(key).to_string()
    };
    keys.iter().map(tail).collect()
}

fn ends_with_words(key: &str, tail: &str) -> bool {
    key == tail || key.strip_suffix(tail).is_some_and(|before| before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunDir, Summary};

    fn run(name: &str, config: &[(&str, &str)]) -> Run {
        let dir = tempfile::tempdir().unwrap();
        let config = config.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect();
        let mut summary = Summary::default();
        summary.name.push_str(name);
        Run {
            dir: RunDir::at(dir.path()).unwrap(),
            summary,
            config,
            task: None,
            reward: super::super::RewardUsed::default(),
        }
    }

    #[test]
    fn seeds_go_together_and_other_configs_do_not() {
        let one = |lr: &str| run("ppo", &[("actor.optim.lr", lr)]);
        let found = gather(vec![one("1e-3"), one("1e-4"), one("1e-3")]);
        let text: Vec<(&str, usize)> = found.iter().map(|one| (one.label.as_str(), one.runs.len())).collect();
        assert_eq!(text, [("lr=1e-3", 2), ("lr=1e-4", 1)]);
        assert_eq!(differences(&found), ["actor.optim.lr"]);
    }

    #[test]
    fn labels_say_no_more_than_they_need_to() {
        let check = |runs: Vec<Run>, expected: &[&str]| {
            let found: Vec<String> = gather(runs).into_iter().map(|one| one.label).collect();
            assert_eq!(found, expected);
        };
        check(vec![run("ppo", &[("a", "1")]), run("sac", &[("a", "2")])], &["ppo", "sac"]);
        check(
            vec![run("ppo", &[("x.lr", "1"), ("y.lr", "3")]), run("ppo", &[("x.lr", "2"), ("y.lr", "4")])],
            &["x.lr=1, y.lr=3", "x.lr=2, y.lr=4"],
        );
        let many = |n: &str| run("ppo", &[("a", n), ("b", n), ("c", n)]);
        check(vec![many("1"), many("2")], &["config 1", "config 2"]);
        check(vec![run("ppo", &[]), run("ppo", &[("a", "1")])], &["a=–", "a=1"]);
    }
}
