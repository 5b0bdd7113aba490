//! `plaudit robot serve`: a Franka behind SERL's dialect.

use std::net::IpAddr;

use clap::Args;
use plaudit_robot::SERL_PORT;

use crate::cli::Verbosity;
use crate::failure::Failure;

/// Serve a Franka arm: the 1 kHz loop, behind SERL's HTTP dialect
///
/// A process of its own, on the machine that is wired to the robot: a loop that misses cycles is stopped by the robot, so
/// nothing else should run there. The arm is held where it is from the start, follows targets under Cartesian impedance, and
/// holds when none comes for half a second. Targets more than 20 cm or 0.6 rad from the arm are refused. Needs the cargo
/// feature `franka`, and for a real arm a PREEMPT_RT kernel and real-time permissions; what is missing is told. Tried
/// against a simulator alone. See docs/robot.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit robot serve --franka 172.16.0.2 --cpu 3
  plaudit robot doctor --server http://127.0.0.1:5000")]
pub struct Serve {
    /// The robot's address
    #[arg(long, value_name = "ADDRESS")]
    franka: String,
    /// The address to listen on. Nobody is asked for a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port to listen on; 0 takes any free one
    #[arg(long, default_value_t = SERL_PORT)]
    port: u16,
    /// The core that the loop keeps to itself
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<usize>,
    /// End after so many seconds instead of at Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
}

impl Serve {
    /// Says that it was left out of this build.
    #[cfg(not(all(feature = "franka", target_os = "linux")))]
    pub fn run(self, _: Verbosity) -> Result<(), Failure> {
        let Self { franka, host, port, .. } = self;
        let message = format!("this build cannot drive the Franka at {franka} (for http://{host}:{port})");
        Err(Failure::usage(message, "build it on Linux with `--features franka`".to_string()))
    }

    /// Serves until it is told to end.
    #[cfg(all(feature = "franka", target_os = "linux"))]
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        use std::net::SocketAddr;
        use std::time::{Duration, Instant};

        use plaudit_robot::{FrankaServer, FrankaSettings};

        use crate::console;
        use crate::run::{interrupted, listen_for_interrupts};

        let settings = FrankaSettings {
            listen: SocketAddr::new(self.host, self.port),
            cpu: self.cpu,
            ..FrankaSettings::new(&self.franka)
        };
        listen_for_interrupts();
        let hint = "is FCI activated in Desk, and the robot unlocked? plaudit robot serve --help";
        let server = FrankaServer::start(settings)
            .map_err(|error| Failure::runtime(error.to_string(), hint.to_string()))?;
        for notice in server.notices() {
            console::eprintln(&format!("notice: {notice}"));
        }
        if !verbosity.quiet {
            let address = server.address();
            console::print(&format!(
                "the Franka at {} is held where it is, and follows targets at http://{address}\n",
                self.franka
            ))?;
        }
        let ends =
            self.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        let mut told = None;
        while !interrupted() && ends.is_none_or(|ends| Instant::now() < ends) {
            let trouble = server.trouble();
            if trouble != told {
                let words = trouble.as_deref().map_or_else(
                    || "the arm follows targets again".into(),
                    |why| format!("the arm does not follow targets: {why}"),
                );
                console::eprintln(&words);
                told = trouble;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
