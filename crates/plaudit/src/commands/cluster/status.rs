//! `plaudit cluster status`: how the processes of a run are doing.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use plaudit_cluster::dora;
use serde_json::json;

use super::{absolute, driver_of};
use crate::cluster::drive::Driver;
use crate::cluster::status::{table, workers};
use crate::console;
use crate::failure::Failure;
use crate::signals::{interrupted, listen_for_interrupts};

/// Show how the processes of a run are doing
///
/// Where each runs, how often it was started again, the version of the weights it has, messages sent, received, unanswered
/// and sent again, and its rate.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit cluster status logs/two
  plaudit cluster status logs/two --watch
  plaudit cluster status logs/two --json | jq '.workers[].last.rate'")]
pub struct Status {
    /// The run directory
    #[arg(value_name = "RUN_DIR")]
    run_dir: PathBuf,
    /// Go on until Ctrl-C, every second
    #[arg(long)]
    watch: bool,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(super) fn run(self) -> Result<(), Failure> {
        let driver = driver_of(&absolute(&self.run_dir)?)?;
        listen_for_interrupts();
        loop {
            console::print(&self.text(&driver))?;
            if !self.watch || interrupted() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn text(&self, driver: &Driver) -> String {
        let plan = &driver.plan;
        let connected = driver.ask(&dora::list_machines(plan), 10);
        let nodes = driver.ask(&dora::list_nodes(plan), 10).unwrap_or_default();
        let workers = workers(plan, &dora::nodes(&nodes));
        let machines = connected.as_ref().map(|table| dora::connected_machines(table)).unwrap_or_default();
        if self.json {
            let machines: Vec<_> =
                machines.iter().map(|(id, heard)| json!({"machine": id, "heard_ms": heard})).collect();
            let coordinator = connected.map_or_else(|error| error.to_string(), |_| "running".into());
            return json!({"coordinator": coordinator, "machines": machines, "workers": workers}).to_string()
                + "\n";
        }
        let head = match &connected {
            Ok(_) => {
                let heard = |(id, heard): &(String, u64)| {
                    format!("{id} heard of {:.1} s ago", *heard as f64 / 1000.0)
                };
                let list: Vec<String> = machines.iter().map(heard).collect();
                format!(
                    "{}: {}\n",
                    plan.name,
                    if list.is_empty() { "no daemon".into() } else { list.join(", ") }
                )
            }
            Err(error) => format!("{}: not up ({error})\n", plan.name),
        };
        let clear = if self.watch { "\x1b[H\x1b[2J" } else { "" };
        format!("{clear}{head}{}", table(&workers))
    }
}
