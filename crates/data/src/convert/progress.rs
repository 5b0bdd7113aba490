//! How far a conversion is, for whoever shows it.

/// A step of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Episodes are read and labelled.
    Reading,
    /// The training split is written.
    WritingTrain,
    /// The validation split is written.
    WritingVal,
}

/// So much of a stage is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which.
    pub stage: Stage,
    /// Files that were read, or samples that were written.
    pub done: usize,
    /// Of how many.
    pub total: usize,
}

/// The progress callback; called from many threads.
pub type OnProgress<'a> = dyn Fn(Progress) + Sync + 'a;
