//! `plaudit robot serve`: a Franka behind SERL's dialect.

use std::net::IpAddr;

use clap::Args;
use plaudit_robot::SERL_PORT;

use crate::cli::Verbosity;
use crate::failure::Failure;

/// Serve a Franka arm: its 1 kHz loop, behind SERL's HTTP dialect
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
    /// Where /jointreset moves the seven joints, in radians
    #[arg(long, value_name = "RADIANS", default_value = "0,0,0,-1.9,0,2,0", value_parser = joints,
          allow_hyphen_values = true)]
    reset_joint_target: [f64; 7],
    /// End after so many seconds instead of at Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
}

/// Seven angles.
fn joints(text: &str) -> Result<[f64; 7], String> {
    let angles: Option<Vec<f64>> = text.split(',').map(|angle| angle.trim().parse().ok()).collect();
    let angles = angles.and_then(|angles| <[f64; 7]>::try_from(angles).ok());
    angles
        .filter(|angles| angles.iter().all(|angle| angle.abs() <= std::f64::consts::TAU)) // false for NaN
        .ok_or_else(|| "seven angles in radians with commas between them".into())
}

#[cfg(not(all(feature = "franka", target_os = "linux")))]
impl Serve {
    /// Says that it was left out of this build.
    pub(super) fn run(self, _: Verbosity) -> Result<(), Failure> {
        let message = format!("this plaudit was built without Franka arms: {} stays untouched", self.franka);
        Err(Failure::usage(
            message,
            "build it on Linux with `cargo build --release --features franka`".to_string(),
        ))
    }
}

#[cfg(all(feature = "franka", target_os = "linux"))]
mod franka {
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use plaudit_robot::{FrankaServer, FrankaSettings};

    use super::{Failure, Serve, Verbosity};
    use crate::commands::robot::LOOKS_EVERY;
    use crate::console;
    use crate::run::{interrupted, listen_for_interrupts};

    /// A robot that gets fewer commands than this in time is about to stop.
    const FEW_IN_TIME: f64 = 0.9;
    /// A loop that has just begun has sent few.
    const LASTS: Duration = Duration::from_secs(1);
    /// How often too few commands are told.
    const TOLD_EVERY: Duration = Duration::from_secs(10);

    impl Serve {
        /// Serves until it is told to end.
        pub(in crate::commands::robot) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
            let settings = FrankaSettings {
                listen: SocketAddr::new(self.host, self.port),
                cpu: self.cpu,
                home_rad: self.reset_joint_target,
                ..FrankaSettings::new(&self.franka)
            };
            listen_for_interrupts();
            let hint =
                "is FCI activated in Desk, the robot unlocked, nobody else connected, and the port free?";
            let server = FrankaServer::start(settings)
                .map_err(|error| Failure::runtime(error.to_string(), hint.to_string()))?;
            if !verbosity.quiet {
                let address = server.address();
                console::print(&format!(
                    "the Franka at {} is held where it is, and follows targets at http://{address}\n",
                    self.franka
                ))?;
            }
            let ends =
                self.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
            let mut told = Told::default();
            while !interrupted() && ends.is_none_or(|ends| Instant::now() < ends) {
                told.tell(&server);
                std::thread::sleep(LOOKS_EVERY);
            }
            Ok(())
        }
    }

    /// What the person at the terminal knows already.
    #[derive(Default)]
    struct Told {
        trouble: Option<String>,
        few_since: Option<Instant>,
        few_told: Option<Instant>,
    }

    impl Told {
        fn tell(&mut self, server: &FrankaServer) {
            for notice in server.take_notices() {
                console::eprintln(&format!("notice: {notice}"));
            }
            let trouble = server.trouble();
            if trouble != self.trouble {
                let words = trouble.as_deref().map_or_else(
                    || "the arm follows targets again".into(),
                    |why| format!("the arm does not follow targets: {why}"),
                );
                console::eprintln(&words);
                self.trouble = trouble;
            }
            let rate = server.command_success_rate().filter(|rate| *rate < FEW_IN_TIME);
            self.few_since = rate.map(|_| self.few_since.unwrap_or_else(Instant::now));
            let is_lasting = self.few_since.is_some_and(|since| since.elapsed() >= LASTS);
            let was_told = self.few_told.is_some_and(|at| at.elapsed() < TOLD_EVERY);
            if let Some(rate) = rate.filter(|_| is_lasting && !was_told) {
                let percent = 100.0 * rate;
                console::eprintln(&format!(
                    "notice: only {percent:.0} % of the last 100 commands came in time"
                ));
                self.few_told = Some(Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joints_are_seven_angles() {
        assert_eq!(joints("0, 0,0,-1.9,0,2,0"), Ok([0.0, 0.0, 0.0, -1.9, 0.0, 2.0, 0.0]));
        for wrong in
            ["", "0,0,0,-1.9,0,2", "0,0,0,-1.9,0,2,0,0", "0,0,0,x,0,2,0", "0,0,0,NaN,0,2,0", "0,0,0,90,0,2,0"]
        {
            assert_eq!(
                joints(wrong),
                Err("seven angles in radians with commas between them".into()),
                "{wrong}"
            );
        }
    }
}
