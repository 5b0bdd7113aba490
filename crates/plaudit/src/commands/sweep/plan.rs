//! Which runs a sweep has: each choice of its keys with each seed, checked before anything runs.

use std::path::{Path, PathBuf};

use plaudit_compose::{SweepOverride, parse_sweep};
use plaudit_view::write_atomically;
use serde::{Deserialize, Serialize};

use crate::cli::{ConfigArgs, RunArgs, Verbosity};
use crate::commands::train;
use crate::config::{self, LoadedConfig};
use crate::console;
use crate::failure::Failure;
use crate::load::{self, RequestedConfig};

/// More runs than this are a mistake.
const MOST_RUNS: usize = 10_000;
/// Longer names of folders are cut.
const LONGEST_NAME: usize = 100;
/// What a sweep sets for itself.
const OWN_KEYS: [&str; 2] = ["runner.logger.log_path", "runner.resume_dir"];
/// The keys that a seed sets.
const SEED_KEYS: [&str; 2] = ["actor.seed", "env.train.seed"];

/// A run of a sweep.
#[derive(Debug, Clone)]
pub(super) struct PlannedRun {
    /// What it is called: `lr=0.001 seed=1`.
    pub(super) name: String,
    /// The words of its own, besides those of all.
    pub(super) overrides: Vec<String>,
    /// What was chosen, seeds and tasks left out.
    pub(super) method: String,
    /// The task, where the sweep has several.
    pub(super) task: String,
    /// Its folder, relative to the sweep's.
    pub(super) folder: String,
    /// Its config, resolved.
    pub(super) config: LoadedConfig,
}

/// A sweep, before it runs.
pub(super) struct Plan {
    /// What it is called.
    pub(super) title: String,
    /// Where everything goes.
    pub(super) folder: PathBuf,
    /// The flags and words that all runs share.
    pub(super) shared: Vec<String>,
    pub(super) runs: Vec<PlannedRun>,
    /// Bytes that a run of it needed, if that was measured before.
    pub(super) run_bytes: Option<u64>,
}

/// What `sweep.json` says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    /// The words that all runs share.
    shared: Vec<String>,
    /// Bytes that a run needed.
    run_bytes: Option<u64>,
    /// The folder of each run, by its overrides.
    runs: Vec<StateRun>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateRun {
    overrides: Vec<String>,
    folder: String,
}

/// A key with its choices; a key with one value is shared by all runs.
struct Axis {
    choices: Vec<String>,
    kind: AxisKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AxisKind {
    Method,
    Task,
    Seed,
}

impl Plan {
    /// The runs that the words ask for; a config that is wrong is refused before anything runs.
    pub(super) fn of(
        args: &RunArgs,
        task_keys: &[String],
        folder: Option<PathBuf>,
        verbosity: Verbosity,
    ) -> Result<Self, Failure> {
        let (config, words) = split(&args.config)?;
        let (mut shared, mut axes) = (flags(args), Vec::new());
        shared.extend(config.clone());
        for (position, word) in words.iter().enumerate() {
            match axis(word, position + 1, task_keys)? {
                Some(axis) => axes.push(axis),
                None => shared.push(word.clone()),
            }
        }
        for key in task_keys {
            if !words.iter().any(|word| key_of(word) == key) {
                let message = format!("--task-key {key}: no word of this command chooses it");
                return Err(Failure::usage(message, format!("write {key}=a,b")));
            }
        }
        let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.choices.len()));
        let Some(count) = count.filter(|count| *count <= MOST_RUNS) else {
            let message = format!("this sweep has more than {MOST_RUNS} runs");
            return Err(Failure::usage(message, "give fewer choices, or sweep in parts".to_string()));
        };
        if count == 1 && axes.is_empty() {
            let help = "give seeds=5, or several values for a key: actor.optim.lr=1e-3,3e-4".to_string();
            return Err(Failure::usage("nothing to sweep: every key has one value", help));
        }
        let title = title(args, config.as_deref());
        let folder = folder.unwrap_or_else(|| Path::new("sweeps").join(&title));
        let combinations = combinations(&axes);
        let runs = combinations.iter().enumerate();
        let runs = runs.map(|(at, chosen)| planned(args, &shared, &axes, chosen, at == 0, verbosity));
        let runs = runs.collect::<Result<Vec<_>, Failure>>()?;
        Ok(Self { title, folder, shared, runs, run_bytes: None })
    }

    /// Gives each run its folder: the one it had before, or a new one.
    pub(super) fn remember(mut self) -> Result<Self, Failure> {
        let mut state = self.state()?;
        for run in &mut self.runs {
            if let Some(known) = state.runs.iter().find(|known| known.overrides == run.overrides) {
                run.folder = known.folder.clone();
                continue;
            }
            let plain = folder_name(&run.name);
            let is_taken = |name: &String| state.runs.iter().any(|known| known.folder == *name);
            let names = (1..).map(|n| if n == 1 { plain.clone() } else { format!("{plain}-{n}") });
            run.folder = names.into_iter().find(|name| !is_taken(name)).unwrap_or(plain);
            state.runs.push(StateRun { overrides: run.overrides.clone(), folder: run.folder.clone() });
        }
        self.run_bytes = state.run_bytes;
        self.write(&state)?;
        Ok(self)
    }

    /// Keeps what a run needed, for when the sweep goes on.
    pub(super) fn keep_run_bytes(&self, bytes: u64) -> Result<(), Failure> {
        let state = self.state()?;
        self.write(&State { run_bytes: Some(bytes), ..state })
    }

    /// What an earlier sweep of this folder left.
    fn state(&self) -> Result<State, Failure> {
        let path = self.state_file();
        let other = |what: &str| {
            let message = format!("{} holds {what}", self.folder.display());
            Failure::usage(message, "give the same words as before, or another --dir".to_string())
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(State { shared: self.shared.clone(), run_bytes: None, runs: Vec::new() });
            }
            Err(error) => {
                return Err(Failure::runtime(format!("cannot read {}: {error}", path.display()), None));
            }
        };
        let state: State = serde_json::from_str(&text)
            .map_err(|error| other(&format!("a sweep.json that is damaged ({error})")))?;
        if state.runs.iter().any(|run| folder_name(&run.folder) != run.folder) {
            return Err(other("a sweep.json that names a folder elsewhere"));
        }
        if state.shared != self.shared {
            return Err(other(&format!("another sweep: {}", state.shared.join(" "))));
        }
        Ok(state)
    }

    fn state_file(&self) -> PathBuf {
        self.folder.join("sweep.json")
    }

    fn write(&self, state: &State) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(state).map_err(|error| Failure::runtime(error, None))?;
        write_atomically(&self.state_file(), text.as_bytes()).map_err(|error| Failure::runtime(error, None))
    }
}

/// The config's name, if it is a word, and the other words.
fn split(args: &ConfigArgs) -> Result<(Option<String>, Vec<String>), Failure> {
    let (config, words) = match args.words.split_first() {
        Some((first, rest)) if args.config_name.is_none() && !load::looks_like_override(first) => {
            (Some(first.clone()), rest.to_vec())
        }
        _ => (None, args.words.clone()),
    };
    if config.as_ref().is_some_and(|name| name == "-" || name.starts_with("/dev/")) {
        let help = "write it to a file, and name that".to_string();
        return Err(Failure::usage(
            "a sweep reads its config once for each run, which a pipe cannot be",
            help,
        ));
    }
    for word in &words {
        if OWN_KEYS.contains(&key_of(word)) {
            let message = format!("{}: a sweep gives each run a folder of its own", key_of(word));
            return Err(Failure::usage(message, "give --dir the folder of the sweep".to_string()));
        }
    }
    Ok((config, words))
}

/// The flags that all runs share.
fn flags(args: &RunArgs) -> Vec<String> {
    let pair = |name: &str, value: &Option<String>| value.clone().map(|value| [name.to_string(), value]);
    let path = pair("--config-path", &args.config.config_path);
    let name = pair("--config-name", &args.config.config_name);
    let local = args.local.then(|| "--local".to_string());
    path.into_iter().chain(name).flatten().chain(local).collect()
}

/// The key of an override, without what says how it is changed.
fn key_of(word: &str) -> &str {
    word.split('=').next().unwrap_or(word).trim_start_matches(['+', '~'])
}

fn axis(word: &str, position: usize, task_keys: &[String]) -> Result<Option<Axis>, Failure> {
    if let Some(seeds) = word.strip_prefix("seeds=") {
        return seeds_axis(seeds).map(Some);
    }
    let Some(sweep) = parse_sweep(word, position)? else { return Ok(None) };
    let key = key_of(word).to_string();
    let last = key.rsplit('.').next().unwrap_or(&key);
    let is_task =
        if task_keys.is_empty() { key.ends_with("init_params.id") } else { task_keys.contains(&key) };
    let kind = match (is_task, last) {
        (true, _) => AxisKind::Task,
        (false, "seed") => AxisKind::Seed,
        _ => AxisKind::Method,
    };
    Ok(Some(Axis { choices: sweep.overrides().collect(), kind }))
}

/// `seeds=5` is how many, from 1 on; several are the seeds themselves.
fn seeds_axis(text: &str) -> Result<Axis, Failure> {
    let wrong = |what: &str| {
        let help =
            "seeds=5 trains with the seeds 1 to 5; seeds=3,7 and seeds=range(10,15) name them".to_string();
        Failure::usage(format!("seeds={text}: {what}"), help)
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let seeds = match parse_sweep(&format!("seeds={text}"), 1)? {
        Some(SweepOverride { values, .. }) => {
            values.iter().map(|value| number(value)).collect::<Option<Vec<_>>>()
        }
        None => match number(text.trim()) {
            Some(count @ 1..=1000) => Some((1..=count).collect()),
            Some(_) => return Err(wrong("give between 1 and 1,000 seeds")),
            None => None,
        },
    };
    let seeds = seeds.ok_or_else(|| wrong("seeds are whole numbers from 0 on"))?;
    Ok(Axis { choices: seeds.iter().map(|seed| format!("seeds={seed}")).collect(), kind: AxisKind::Seed })
}

/// Every combination, the last key changing fastest, as Hydra orders its jobs.
fn combinations(axes: &[Axis]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![Vec::new()], |before, axis| {
        let with = |chosen: &Vec<usize>| {
            let chosen = chosen.clone();
            (0..axis.choices.len()).map(move |at| [chosen.clone(), vec![at]].concat())
        };
        before.iter().flat_map(with).collect()
    })
}

fn planned(
    args: &RunArgs,
    shared: &[String],
    axes: &[Axis],
    chosen: &[usize],
    is_first: bool,
    verbosity: Verbosity,
) -> Result<PlannedRun, Failure> {
    let words: Vec<(&str, AxisKind)> =
        axes.iter().zip(chosen).map(|(axis, at)| (axis.choices[*at].as_str(), axis.kind)).collect();
    let of = |kind: AxisKind| {
        let own = words.iter().filter(|(_, of)| *of == kind);
        own.map(|(word, _)| short(word, axes)).collect::<Vec<_>>().join(" ")
    };
    let parts = [of(AxisKind::Task), of(AxisKind::Method), of(AxisKind::Seed)];
    let name = parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ");
    let [task, method, _] = parts;
    let overrides: Vec<String> = words.iter().flat_map(|(word, _)| as_overrides(word)).collect();
    let words = shared.iter().skip(flags(args).len()).chain(&overrides).cloned().collect();
    let config = ConfigArgs { words, ..args.config.clone() };
    let config = loaded(&RunArgs { config, local: args.local }, is_first, verbosity)?;
    let method = if method.is_empty() { "all runs".to_string() } else { method };
    Ok(PlannedRun { name, overrides, method, task, folder: String::new(), config })
}

/// The config of a run. Its notices are said once: those of the first run.
fn loaded(args: &RunArgs, is_first: bool, verbosity: Verbosity) -> Result<LoadedConfig, Failure> {
    let loaded = match is_first {
        true => load::to_run(args, verbosity)?,
        false => {
            let asked = RequestedConfig::from_args(&args.config)?;
            config::load(&asked.disk, &asked.request)?
        }
    };
    train::refuse_other_purposes(&loaded)?;
    if loaded.config.runner.max_epochs < 0 && loaded.config.runner.max_steps < 0 {
        let message = "a sweep needs runs that end";
        return Err(loaded.problem("runner.max_epochs", message, "set it to a number of steps").into());
    }
    if is_first && loaded.config.runner.val_check_interval <= 0 && !verbosity.quiet {
        let note = "note: runner.val_check_interval is off: runs are compared by what they did in training";
        console::eprintln(note);
    }
    Ok(loaded)
}

/// A choice as words of a config.
fn as_overrides(word: &str) -> Vec<String> {
    match word.strip_prefix("seeds=") {
        Some(seed) => SEED_KEYS.iter().map(|key| format!("{key}={seed}")).collect(),
        None => vec![word.to_string()],
    }
}

/// A choice as people read it: the last word of its key, unless another key ends with it too.
fn short(word: &str, axes: &[Axis]) -> String {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let key = key.trim_start_matches('+');
    let key = if key == "seeds" { "seed" } else { key };
    let tail = |key: &str| key.rsplit(['.', '/']).next().unwrap_or(key).to_string();
    let alike =
        axes.iter().filter_map(|axis| axis.choices.first()).filter(|one| tail(key_of(one)) == tail(key));
    let name = if alike.count() > 1 { key.to_string() } else { tail(key) };
    format!("{name}={value}")
}

/// A name that every file system takes.
fn folder_name(name: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "=._-+".contains(letter) { letter } else { '_' };
    let plain: String = name.trim_start_matches('.').chars().map(plain).take(LONGEST_NAME).collect();
    if plain.is_empty() { "run".into() } else { plain }
}

fn title(args: &RunArgs, config: Option<&str>) -> String {
    let name = config.or(args.config.config_name.as_deref()).unwrap_or("sweep");
    let stem =
        Path::new(name).file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy().into_owned());
    folder_name(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &[&str]) -> Result<Plan, Failure> {
        let config =
            ConfigArgs { words: words.iter().map(ToString::to_string).collect(), ..ConfigArgs::default() };
        let quiet = Verbosity { quiet: true, verbose: false };
        Plan::of(&RunArgs { config, local: false }, &[], None, quiet)
    }

    #[test]
    fn each_choice_meets_each_seed() {
        let plan =
            plan(&["cartpole_ppo", "actor.optim.lr=1e-3,3e-4", "seeds=2", "runner.max_epochs=3"]).unwrap();
        let names: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names, ["lr=0.001 seed=1", "lr=0.001 seed=2", "lr=0.0003 seed=1", "lr=0.0003 seed=2"]);
        assert_eq!(plan.shared, ["cartpole_ppo", "runner.max_epochs=3"]);
        assert_eq!(plan.runs[3].overrides, ["actor.optim.lr=0.0003", "actor.seed=2", "env.train.seed=2"]);
        assert_eq!((plan.runs[3].method.as_str(), plan.runs[3].task.as_str()), ("lr=0.0003", ""));
        assert_eq!(plan.runs[3].config.config.env.train.seed, 2);
        assert_eq!(plan.folder, Path::new("sweeps/cartpole_ppo"));
    }

    #[test]
    fn seeds_and_tasks_are_no_methods() {
        let words = ["cartpole_ppo", "actor.seed=4,5", "env.train.init_params.id=CartPole-v1,Acrobot-v1"];
        let plan = plan(&words).unwrap();
        assert!(plan.runs.iter().all(|run| run.method == "all runs"));
        assert_eq!(plan.runs[1].task, "id=Acrobot-v1");
        assert_eq!(plan.runs[1].name, "id=Acrobot-v1 seed=4");
    }

    #[test]
    fn what_cannot_be_swept_is_refused_before_anything_runs() {
        for (words, expected) in [
            (&["cartpole_ppo"][..], "nothing to sweep"),
            (&["cartpole_ppo", "seeds=0"], "between 1 and 1,000"),
            (&["cartpole_ppo", "seeds=a,b"], "whole numbers"),
            (&["cartpole_ppo", "seeds=1.5"], "whole numbers"),
            (&["cartpole_ppo", "seeds=2", "runner.resume_dir=x"], "a folder of its own"),
            (&["cartpole_ppo", "actor.optim.lrr=1,2"], "lrr"),
            (&["cartpole_ppo", "actor.optim.lr=1e-3,fast"], "lr"),
            (
                &["cartpole_ppo", "actor.seed=range(200)", "algorithm.gamma=range(0,1,0.01)"],
                "more than 10000",
            ),
            (&["reward_training", "seeds=2"], "not a policy"),
            (&["-", "seeds=2"], "a pipe cannot be"),
            (&["cartpole_ppo", "seeds=2", "runner.max_epochs=-1"], "runs that end"),
        ] {
            let error = plan(words).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_folder_is_kept_and_another_sweep_refused() {
        let root = tempfile::tempdir().unwrap();
        let with = |words: &[&str]| {
            let mut plan = plan(words).unwrap();
            plan.folder = root.path().to_path_buf();
            plan.remember()
        };
        let folders = |plan: &Plan| plan.runs.iter().map(|run| run.folder.clone()).collect::<Vec<_>>();
        let first = with(&["cartpole_ppo", "actor.optim.lr=1e-3,1e-4", "seeds=1"]).unwrap();
        assert_eq!(folders(&first), ["lr=0.001_seed=1", "lr=0.0001_seed=1"]);
        let more = with(&["cartpole_ppo", "actor.optim.lr=3e-4,1e-3", "seeds=1"]).unwrap();
        assert_eq!(folders(&more), ["lr=0.0003_seed=1", "lr=0.001_seed=1"], "what is there is kept");
        let other = with(&["cartpole_ppo", "runner.max_epochs=3", "seeds=1"]).map(|_| ()).unwrap_err();
        assert!(other.to_string().contains("another sweep: cartpole_ppo"), "{other}");
        let path = root.path().join("sweep.json");
        let text = std::fs::read_to_string(&path).unwrap().replace("lr=0.001_seed=1", "../../elsewhere");
        std::fs::write(&path, text).unwrap();
        let hostile = with(&["cartpole_ppo", "seeds=1"]).map(|_| ()).unwrap_err();
        assert!(hostile.to_string().contains("a folder elsewhere"), "{hostile}");
    }
}
