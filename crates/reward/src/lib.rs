//! Learned rewards: training them, scoring with them, and turning scores into what a policy is paid.

pub mod audit;
pub mod augment;
pub mod card;
pub mod dataset;
pub mod endpoint;
mod judge;
pub mod metrics;
mod pay;
pub mod pictures;
pub mod sft;
pub mod train;
pub mod trend;
pub mod watch;

pub use judge::{
    CameraError, Classifier, ClipJudge, FrameJudge, Gallery, JudgeError, JudgeFile, JudgeSource, Judged,
    Moment, Newer, Seat, Seated, Sight, StateAlone, Verdict, camera_for,
};
pub use pay::{
    AtTermination, Clip, ClipBuffer, Entry, Frame, FrameReward, Guard, GuardError, History, HistoryBuffer,
    Latch, Pay, Place, Rule, ScoredClips, Sum, VoteReward, When, WindowReward,
};
