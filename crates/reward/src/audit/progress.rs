//! How far an audit is.

/// How much of a stage is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditProgress {
    /// Which stage: `scoring`.
    pub what: &'static str,
    /// What is counted: `frames`.
    pub unit: &'static str,
    /// How many are done.
    pub done: usize,
    /// Of how many.
    pub total: usize,
}

/// Callback with how far an audit is; it may come from any thread.
pub type OnAuditProgress<'a> = dyn Fn(AuditProgress) + Sync + 'a;
