//! `plaudit cluster status`: how the processes of a run are doing.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use plaudit_cluster::dora::{self, NodeState};
use serde_json::json;

use super::{absolute, driver_of};
use crate::cluster::drive::Driver;
use crate::cluster::status::{segments, table, workers};
use crate::console;
use crate::failure::Failure;
use crate::signals::{interrupted, listen_for_interrupts};

/// Show how the processes of a run are doing
///
/// Where each runs, how often it was started again, the version of the weights it has, messages sent, received, unanswered
/// and sent again, and its rate; and whether the learner took in every segment once.
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

/// How often the coordinator is asked while somebody watches: it answers twenty questions a minute from one address.
const ASK: Duration = Duration::from_secs(15);

/// What the coordinator said.
struct Answer {
    when: Instant,
    /// The table of daemons, or why there is none.
    connected: Result<String, String>,
    nodes: Vec<NodeState>,
}

impl Answer {
    fn of(driver: &Driver) -> Self {
        let first_line = |text: String| text.lines().take(2).collect::<Vec<_>>().join(" ");
        let connected = driver.ask(&dora::list_machines(&driver.plan), 10);
        let nodes = driver.ask(&dora::list_nodes(&driver.plan), 10).unwrap_or_default();
        let connected = connected.map_err(|error| first_line(error.to_string()));
        Self { when: Instant::now(), connected, nodes: dora::nodes(&nodes) }
    }
}

impl Status {
    pub(super) fn run(self) -> Result<(), Failure> {
        let driver = driver_of(&absolute(&self.run_dir)?)?;
        listen_for_interrupts();
        let mut asked = None;
        loop {
            let is_old = asked.as_ref().is_none_or(|answer: &Answer| answer.when.elapsed() > ASK);
            if is_old {
                asked = Some(Answer::of(&driver));
            }
            if let Some(answer) = &asked {
                console::print(&self.text(&driver, answer))?;
            }
            if !self.watch || interrupted() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn text(&self, driver: &Driver, answer: &Answer) -> String {
        let plan = &driver.plan;
        let Answer { connected, nodes, .. } = answer;
        let workers = workers(plan, nodes);
        let machines = connected.as_ref().map(|table| dora::connected_machines(table)).unwrap_or_default();
        if self.json {
            let machines: Vec<_> =
                machines.iter().map(|(id, heard)| json!({"machine": id, "heard_ms": heard})).collect();
            let coordinator = connected.as_ref().map_or_else(String::clone, |_| "running".into());
            let segments = segments(plan);
            let all = json!({"coordinator": coordinator, "machines": machines, "workers": workers, "segments": segments});
            return format!("{all}\n");
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
        let segments = segments(plan).map(|segments| segments.text()).unwrap_or_default();
        format!("{clear}{head}{}{segments}", table(&workers))
    }
}
