//! `plaudit studio`: look at what is in a folder in the browser, and label it.

mod backend;
mod robots;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;

use clap::Args;
use plaudit_nn::classifier::{Device, Precision};
use plaudit_reward::open::OpenOptions;
use plaudit_studio::{Studio, StudioError, StudioSettings};

use self::backend::ThisProgram;
use crate::cli::Verbosity;
use crate::console;
use crate::device::{DeviceArgs, GpuWork};
use crate::failure::Failure;
use crate::interpreter;
use crate::run::{interrupted, listen_for_interrupts};

/// Look at episodes, rewards and models in the browser, and label them
///
/// Serves a web app over everything in a folder: datasets of any format, with the curves of reward models under the video, and
/// labels by keys. The address that is printed holds a token; whoever has it can look, and label unless --read-only is given.
/// It listens on this machine alone unless --bind says otherwise. Nothing outside the folder is read, but for models that
/// --model names. Labels go into FOLDER/plaudit-labels. Ctrl-C ends it. See docs/studio.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit studio plaudit-demo
  plaudit studio logs/run/collected_data --model logs/reward_training
  plaudit studio bench --robot bench/arm.yaml
  plaudit studio datasets --read-only --bind 0.0.0.0 --port 8123 --no-open")]
pub struct Command {
    /// The folder to show
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// The port to listen on; 0 takes any free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The address to listen on; by default nobody but this machine can reach it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Write nothing: no labels, no exports
    #[arg(long)]
    read_only: bool,
    /// A reward model beside those in the folder: a run, a checkpoint, a file, or a server's address. May be repeated
    #[arg(long, value_name = "MODEL")]
    model: Vec<PathBuf>,
    /// A robot beside those whose configs lie in the folder: a config file, or a recipe. May be repeated
    #[arg(long, value_name = "CONFIG")]
    robot: Vec<String>,
    /// Open the browser, also where there may be none
    #[arg(long, overrides_with = "no_open")]
    open: bool,
    /// Open no browser
    #[arg(long, overrides_with = "open")]
    no_open: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let device = self.device.choice().resolve(GpuWork::Classifier).map_err(super::reward::no_gpu)?;
        // A judge's numbers on a GPU are 16 bits.
        let precision = if device == Device::Cpu { Precision::Fp32 } else { Precision::Bf16 };
        let python = interpreter::default();
        let open_options = OpenOptions { device, precision, python, ..OpenOptions::default() };
        let settings = StudioSettings {
            folder: self.folder.clone(),
            address: SocketAddr::new(self.bind, self.port),
            read_only: self.read_only,
            models: self.model.clone(),
            open_options,
        };
        let robots = self.robot.iter().map(|robot| robots::wherever(robot)).collect();
        let backend = ThisProgram { is_exposed: !self.bind.is_loopback(), robots };
        let studio = Studio::bind_with(settings, Some(Arc::new(backend))).map_err(|error| failure(&error))?;
        listen_for_interrupts();
        if !verbosity.quiet {
            self.say_who_can_look(&studio);
        }
        let url = studio.url();
        // For people and for scripts, which wait for this line.
        console::print(&format!("studio of {}, listening on {url}\n", self.folder.display()))?;
        if self.open || (!self.no_open && has_screen()) {
            open_browser(&url);
        }
        studio.run(interrupted).map_err(|error| failure(&error))
    }

    /// What an address that others can reach means.
    fn say_who_can_look(&self, studio: &Studio) {
        if self.bind.is_loopback() {
            return;
        }
        let can = if self.read_only { "see" } else { "see, and label," };
        console::eprintln(&format!(
            "warning: whoever reaches {} and has the token can {can} everything in {}; there is no encryption",
            studio.address(),
            self.folder.display()
        ));
    }
}

fn failure(error: &StudioError) -> Failure {
    let help = match error {
        StudioError::Folder { .. } => "give a folder that is there",
        StudioError::Listen { .. } => {
            "choose another --port, or leave it out; --bind takes an address of this machine"
        }
        _ => return Failure::runtime(error, None),
    };
    Failure::usage(error, help.to_string())
}

/// Whether a browser could show something: not over ssh, and not in a container.
fn has_screen() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("SSH_CONNECTION") {
        return false;
    }
    cfg!(any(target_os = "macos", windows)) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// The browser of this desktop; where there is none, people have the printed address.
fn open_browser(url: &str) {
    let (program, words): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("explorer", &[]),
        _ => ("xdg-open", &[]),
    };
    let quiet = |process: &mut Process| {
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    };
    let mut process = Process::new(program);
    quiet(process.args(words).arg(url));
    let _ = process.spawn();
}
