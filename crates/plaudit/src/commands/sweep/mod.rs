//! `plaudit sweep`: a policy is trained for each choice of some keys and each seed, and the choices are
//! compared.

mod child;
mod memory;
mod plan;
mod pool;
mod result;

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;

use self::plan::Plan;
use self::pool::{Pool, Stop};
use crate::cli::{RunArgs, Verbosity};
use crate::console;
use crate::failure::Failure;
use crate::run::{listen_for_interrupts, quoted};

/// Train a policy for each choice of keys and each seed, and compare the choices
///
/// Keys with several values are choices, as Hydra writes them: `key=a,b,c`, `key=choice(a,b)`,
/// `key=range(1,4)`. `seeds=5` trains each combination with the seeds 1 to 5 (`seeds=3,7` names them). Each
/// run is a `plaudit train` of its own, in a folder of its own; as many go on side by side as cores, memory
/// and GPUs allow. A sweep that was stopped or killed goes on with the same command: finished runs are kept,
/// others continue from their checkpoints. It ends with a page and a table: interquartile mean with bootstrap
/// intervals, probability of improvement, performance profiles.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit sweep cartpole_ppo seeds=5
  plaudit sweep cartpole_ppo actor.optim.lr=1e-3,3e-4 seeds=5
  plaudit sweep pickcube_ppo 'algorithm.gamma=range(0.8,1,0.05)' \\
      seeds=3 --jobs 2 --dir gammas
  plaudit sweep cartpole_ppo seeds=1,2,3 --metric eval/return")]
pub struct Command {
    /// Which config, with choices.
    #[command(flatten)]
    config: RunArgs,
    /// Runs side by side [default: as cores, memory and GPUs allow]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Where everything goes [default: sweeps/CONFIG]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Compare runs by the last value of this metric; higher is better [default: success, or else the return]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// A key with choices that are tasks: methods are compared over them. Several times for several keys
    #[arg(long, value_name = "KEY")]
    task_key: Vec<String>,
    /// Print what came of it as JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        listen_for_interrupts();
        let plan = Plan::of(&self.config, &self.task_key, self.dir.clone(), verbosity)?;
        let _lock = claim(&plan.folder)?;
        let plan = plan.remember()?;
        let mut pool = Pool::new(&plan, self.jobs.map(usize::from), verbosity)?;
        let stop = pool.work()?;
        if stop == Stop::Interrupted {
            console::eprintln(&format!("stopped; what ran is saved\nto go on: {}", self.as_typed()));
            return Err(Failure::Stopped);
        }
        let failures = pool.into_failures();
        result::show(&plan, &failures, self.metric.as_deref(), self.json)?;
        match failures.len() {
            0 => Ok(()),
            failed => {
                let message = format!("{failed} of {} runs failed", plan.runs.len());
                Err(Failure::runtime(
                    message,
                    format!("the same command runs them again: {}", self.as_typed()),
                ))
            }
        }
    }

    /// The command that goes on with this sweep.
    fn as_typed(&self) -> String {
        let mut words = self.config.command("sweep");
        let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
        if let Some(jobs) = self.jobs {
            flag("--jobs", jobs.to_string());
        }
        if let Some(dir) = &self.dir {
            flag("--dir", dir.display().to_string());
        }
        if let Some(metric) = &self.metric {
            flag("--metric", metric.clone());
        }
        self.task_key.iter().for_each(|key| flag("--task-key", key.clone()));
        words.extend(self.json.then(|| "--json".to_string()));
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Two sweeps must not work in one folder.
fn claim(folder: &Path) -> Result<File, Failure> {
    let path = folder.join("sweep.lock");
    let failed = |error: std::io::Error| {
        let help = "give --dir a folder that can be written".to_string();
        Failure::usage(format!("cannot write {}: {error}", path.display()), help)
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    match file.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => {
            let message = format!("another sweep is at work in {}", folder.display());
            Err(Failure::usage(message, "wait for it, or give another --dir".to_string()))
        }
        // Some network file systems know no locks; that is no reason to refuse a sweep.
        Ok(()) | Err(std::fs::TryLockError::Error(_)) => Ok(file),
    }
}
