//! `plaudit robot doctor`: whether a bench is fit to be used.

use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use plaudit_robot::doctor::{
    CameraCheck, Device, Finding, Level, ServerCheck, WorkspaceCheck, check_camera, check_server,
    devices_findings, find_devices, verdict,
};
use plaudit_robot::{Clock, Compliance, RealClock, UDEV_RULES, UDEV_RULES_PATH};
use serde::Serialize;

use super::bench::{Bench, BenchArgs};
use super::server;
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;
use crate::hints::about_arm;

/// Check a bench: server, cameras, devices, box, compliance, e-stop
///
/// Nothing moves. The routes of the server are asked for with OPTIONS, its state is read a hundred times, and each camera
/// is watched for three seconds. Ends in a verdict: exit code 0 if nothing is wrong, 1 otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit robot doctor --server http://127.0.0.1:5000 --camera base_camera
  plaudit robot doctor bench.yaml --server http://10.0.0.2:5000
  plaudit robot doctor --server http://10.0.0.2:5000 \\
      --camera http://10.0.0.3:8080/stream --camera /dev/video0 --yes --json")]
pub struct Doctor {
    #[command(flatten)]
    bench: BenchArgs,
    /// Ask nothing: the e-stop is reported as not tested
    #[arg(long, short)]
    yes: bool,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// What was found out, as JSON has it.
#[derive(Serialize)]
struct DoctorReport {
    verdict: Level,
    server: Option<ServerCheck>,
    cameras: Vec<CameraCheck>,
    devices: Vec<Device>,
    workspace: Option<WorkspaceCheck>,
    e_stop: EStop,
    findings: Vec<Finding>,
}

/// What a person says about the e-stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum EStop {
    Works,
    Fails,
    NotTested,
}

impl Doctor {
    /// Does it.
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let bench = self.bench.resolve(verbosity)?;
        let report = self.examine(&bench, &clock)?;
        if self.json {
            let value = serde_json::to_string(&report)
                .map_err(|error| Failure::runtime(format!("cannot write JSON: {error}"), None))?;
            console::print(&format!("{value}\n"))?;
        } else {
            console::print(&page(&report))?;
        }
        if report.verdict == Level::Wrong { Err(Failure::FoundProblems) } else { Ok(()) }
    }

    fn examine(&self, bench: &Bench, clock: &Arc<dyn Clock>) -> Result<DoctorReport, Failure> {
        let mut arm = server::arm(&bench.server, clock.clone())?;
        let mut findings = Vec::new();
        let server = match check_server(&mut arm) {
            Ok(check) => {
                findings.push(Finding::fine("server", format!("{} answers", bench.server)));
                findings.extend(check.findings(bench.control_hz));
                Some(check)
            }
            Err(error) => {
                findings.push(Finding::wrong("server", error.to_string(), about_arm(&error)));
                None
            }
        };
        let mut cameras = Vec::new();
        for camera in &bench.cameras {
            match check_camera(&camera.name, &camera.address, clock.clone()) {
                Ok(check) => {
                    findings.extend(check.findings(bench.control_hz));
                    cameras.push(check);
                }
                Err(error) => {
                    let advice = "correct its address, or plug it in";
                    findings.push(Finding::wrong("camera", error.to_string(), advice));
                }
            }
        }
        if bench.cameras.is_empty() {
            let advice =
                "name them: --camera NAME for the server's own, or --camera ADDRESS of a stream or a device";
            findings.push(Finding::warning("camera", "no camera was looked at", advice));
        }
        let devices = find_devices(Path::new("/sys"), Path::new("/dev"));
        findings.extend(devices_findings(&devices));
        let workspace = server.as_ref().and_then(|check| bench.check_workspace(check.newest.pose));
        findings.extend(workspace.iter().flat_map(WorkspaceCheck::findings));
        findings.extend(bench.findings());
        findings.push(compliance(bench));
        let e_stop = self.test_e_stop()?;
        findings.push(e_stop.finding());
        Ok(DoctorReport {
            verdict: verdict(&findings),
            server,
            cameras,
            devices,
            workspace,
            e_stop,
            findings,
        })
    }

    /// Only a person can know.
    fn test_e_stop(&self) -> Result<EStop, Failure> {
        let is_asked = !self.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if !is_asked {
            return Ok(EStop::NotTested);
        }
        console::eprintln(
            "Press the robot's emergency stop now. Do the brakes close and the lights change? [y/n, Enter: not tested]",
        );
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| Failure::runtime(format!("cannot read the answer: {error}"), None))?;
        Ok(EStop::of(&answer))
    }
}

impl EStop {
    fn of(answer: &str) -> Self {
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Self::Works,
            "n" | "no" => Self::Fails,
            _ => Self::NotTested,
        }
    }

    fn finding(self) -> Finding {
        const ABOUT: &str = "e-stop";
        match self {
            Self::Works => {
                Finding::fine(ABOUT, "a person pressed it, and the arm stopped; release it to go on")
            }
            Self::Fails => Finding::wrong(ABOUT, "it did not stop the arm", "do not use this robot"),
            Self::NotTested => {
                let advice = "press it before the arm moves; it is the robot's, and no software replaces it";
                Finding::warning(ABOUT, "not tested", advice)
            }
        }
    }
}

/// Whether the controller takes what the config sets.
fn compliance(bench: &Bench) -> Finding {
    const ABOUT: &str = "compliance";
    let values = bench.compliance.iter().map(|(name, value)| (name.as_str(), *value));
    match Compliance::new(values) {
        Ok(checked) if checked.values().is_empty() => {
            Finding::fine(ABOUT, "none is set: the controller keeps its own")
        }
        Ok(checked) => {
            let count = checked.values().len();
            Finding::fine(ABOUT, format!("{count} parameters, all within the controller's ranges"))
        }
        Err(error) => Finding::wrong(ABOUT, error.to_string(), "change `override_cfg.compliance_param`"),
    }
}

fn page(report: &DoctorReport) -> String {
    let mut page = String::new();
    for finding in &report.findings {
        let mark = match finding.level {
            Level::Fine => "ok     ",
            Level::Warning => "look   ",
            Level::Wrong => "WRONG  ",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{mark}{:<11} {}", finding.about, finding.text);
        if let Some(advice) = &finding.advice {
            let _ = writeln!(page, "{:19}→ {advice}", "");
        }
    }
    if report.devices.iter().any(|device| !device.is_readable) {
        let _ = write!(page, "\n# {UDEV_RULES_PATH}\n{UDEV_RULES}");
    }
    let wrong = report.findings.iter().filter(|finding| finding.level == Level::Wrong).count();
    let _ = match (wrong, report.verdict) {
        (0, Level::Fine) => writeln!(page, "\nThe bench is fine."),
        (0, _) => writeln!(page, "\nThe bench can be used; look at what is marked."),
        (1, _) => writeln!(page, "\nThe bench is not fit to be used: 1 thing is wrong."),
        (wrong, _) => writeln!(page, "\nThe bench is not fit to be used: {wrong} things are wrong."),
    };
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_counts() {
        let answers = [
            ("y\n", EStop::Works),
            ("No\n", EStop::Fails),
            ("\n", EStop::NotTested),
            ("what", EStop::NotTested),
        ];
        for (answer, expected) in answers {
            assert_eq!(EStop::of(answer), expected, "{answer}");
        }
        assert_eq!(EStop::Fails.finding().level, Level::Wrong);
        assert_eq!(EStop::NotTested.finding().level, Level::Warning);
    }

    #[test]
    fn the_udev_rule_is_printed_for_a_device_that_may_not_be_read() {
        let device = Device {
            kind: plaudit_robot::doctor::DeviceKind::SpaceMouse,
            name: "SpaceMouse Compact".into(),
            node: "/dev/hidraw0".into(),
            is_readable: false,
        };
        let findings = devices_findings(std::slice::from_ref(&device));
        let mut report = DoctorReport {
            verdict: verdict(&findings),
            server: None,
            cameras: vec![],
            devices: vec![device],
            workspace: None,
            e_stop: EStop::NotTested,
            findings,
        };
        let text = page(&report);
        assert!(text.contains("idVendor}==\"256f\"") && text.contains("WRONG  pilot"), "{text}");
        assert!(text.ends_with("not fit to be used: 1 thing is wrong.\n"), "{text}");
        report.devices.clear();
        assert!(!page(&report).contains("uaccess"));
    }
}
