//! What all the numbers come to.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Worth looking into before the model is used.
    Warning,
    /// A reason not to use the model.
    Fatal,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A name that does not change: `no_guarantee`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, in a sentence.
    pub what: String,
    /// What to do.
    pub hint: String,
}

/// Whether a model can be used as a reward.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Verdict {
    /// Everything found, the worst first.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Adds a finding.
    pub fn add(&mut self, severity: Severity, code: &'static str, what: String, hint: impl Into<String>) {
        self.findings.push(Finding { code, severity, what, hint: hint.into() });
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }

    /// Whether nothing speaks against using the model.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Severity::Fatal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fatal_finding_decides_and_comes_first() {
        let mut verdict = Verdict::default();
        verdict.add(Severity::Warning, "shaky", "a".into(), "");
        assert!(verdict.passed());
        verdict.add(Severity::Fatal, "leak", "b".into(), "");
        verdict.add(Severity::Note, "slow", "c".into(), "");
        assert!(!verdict.passed());
        let codes: Vec<_> = verdict.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["leak", "shaky", "slow"]);
    }
}
