//! Learned rewards: training them, scoring with them, and turning scores into what a policy is paid.

mod judge;
mod pay;

pub use judge::{
    ClipJudge, FrameJudge, Gallery, JudgeError, JudgeSource, Judged, Newer, Seat, Seated, StateAlone, Verdict,
};
pub use pay::{
    Clip, ClipBuffer, Entry, Frame, FrameReward, Guard, GuardError, History, HistoryBuffer, Latch, Pay,
    Place, Rule, ScoredClips, Sum, When, WindowReward,
};
