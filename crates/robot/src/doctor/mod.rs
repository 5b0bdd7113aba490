//! What is right and wrong about a bench: server, cameras, devices, workspace. Nothing here moves an arm.
//!
//! Each check returns what it measured, and [`Finding`]s that say what that means. A bench is fine when no finding is
//! [`Level::Wrong`].

mod camera;
mod devices;
mod server;
mod workspace;

use serde::Serialize;

pub use camera::{CameraCheck, check_camera};
pub use devices::{Device, DeviceKind, devices_findings, find_devices};
pub use server::{Dialect, Latencies, ServerCheck, check_server};
pub use workspace::{WorkspaceCheck, check_workspace};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Fine,
    /// Worth a look.
    Warning,
    /// Nothing should be started like this.
    Wrong,
}

/// One thing that was found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about: `server`, `camera`, `pilot`, `workspace`, `compliance`, `e-stop`.
    pub about: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found, in a sentence.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn fine(about: &'static str, text: impl Into<String>) -> Self {
        Self { about, level: Level::Fine, text: text.into(), advice: None }
    }

    /// Worth a look.
    pub fn warning(about: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { about, level: Level::Warning, text: text.into(), advice: Some(advice.into()) }
    }

    /// Nothing should be started like this.
    pub fn wrong(about: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { about, level: Level::Wrong, text: text.into(), advice: Some(advice.into()) }
    }
}

/// The worst of all findings.
pub fn verdict(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Fine)
}

/// The value below which a share of sorted values lies; zero of none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = (share * last as f64).ceil() as usize;
    sorted.get(at.min(last)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_is_the_verdict() {
        let mut findings = vec![Finding::fine("server", "answers")];
        assert_eq!(verdict(&findings), Level::Fine);
        findings.push(Finding::wrong("camera", "no frames", "plug it in"));
        findings.push(Finding::warning("pilot", "none", "plug one in"));
        assert_eq!(verdict(&findings), Level::Wrong);
        assert_eq!(verdict(&[]), Level::Fine);
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.99), quantile(&[], 0.5)), (51.0, 100.0, 0.0));
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
    }
}
