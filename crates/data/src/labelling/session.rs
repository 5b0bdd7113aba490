//! A labelling session while it runs.

use std::collections::VecDeque;
use std::path::Path;

use super::LONGEST_LAG_SECS;
use super::error::LabellingError;
use super::journal::{Journal, JournalFrame, JournalHeader};
use super::marks::{Mark, TimedMark, labels, running};

/// What a person can press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelKey {
    /// From now on frames are successes.
    Success,
    /// From now on frames are failures.
    Fail,
    /// From now on frames have no label.
    Off,
    /// The last label was wrong.
    Undo,
}

/// What can be chosen about a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSettings {
    /// What the frames are.
    pub header: JournalHeader,
    /// How many successes and failures are wanted.
    pub targets: [usize; 2],
    /// How late the person presses, seconds.
    pub lag_secs: f64,
}

/// Frames and keys on their way into the journal. Times are seconds since this session began.
#[derive(Debug)]
pub struct Session {
    settings: SessionSettings,
    journal: Journal,
    /// When the session began, on the journal's time.
    starts: f64,
    frames: Vec<JournalFrame>,
    marks: Vec<TimedMark>,
    /// Frames without a label, which may get one yet when a key is pressed late.
    recent: VecDeque<(f64, Vec<u8>)>,
    counts: [usize; 2],
}

impl Session {
    /// Begins in a folder, or goes on where the journal there ends.
    ///
    /// # Errors
    /// As [`Journal::open`], or when the lag is none.
    pub fn open(folder: &Path, settings: SessionSettings) -> Result<Self, LabellingError> {
        check_lag(settings.lag_secs)?;
        let (mut journal, read, starts) = Journal::open(folder, &settings.header)?;
        let mut marks = read.marks;
        if running(&marks).is_some() {
            // Whoever was killed while a label was on did not mean the frames of the next session.
            let mark =
                TimedMark { time: read.frames.last().map_or(0.0, |frame| frame.time), mark: Mark::Enough };
            journal.mark(mark)?;
            marks.push(mark);
        }
        let mut session = Self {
            settings,
            journal,
            starts,
            frames: read.frames,
            marks,
            recent: VecDeque::new(),
            counts: [0; 2],
        };
        session.count();
        Ok(session)
    }

    /// Frames that are labelled: successes and failures.
    pub fn counts(&self) -> [usize; 2] {
        self.counts
    }

    /// How many are wanted.
    pub fn targets(&self) -> [usize; 2] {
        self.settings.targets
    }

    /// Which label is on.
    pub fn running(&self) -> Option<bool> {
        running(&self.marks)
    }

    /// Whether there are enough of both.
    pub fn is_done(&self) -> bool {
        [true, false].into_iter().all(|class| self.has_enough(class))
    }

    /// A key was pressed. Returns whether it changed anything: a key that repeats, or asks for more of what there is
    /// enough of, does not.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn key(&mut self, key: LabelKey, time: f64) -> Result<bool, LabellingError> {
        let running = self.running();
        let mark = match key {
            LabelKey::Success if running != Some(true) && !self.has_enough(true) => Mark::Success,
            LabelKey::Fail if running != Some(false) && !self.has_enough(false) => Mark::Fail,
            LabelKey::Off if running.is_some() => Mark::Off,
            LabelKey::Undo if self.counts != [0, 0] || running.is_some() => Mark::Undo,
            _ => return Ok(false),
        };
        if matches!(mark, Mark::Success | Mark::Fail) {
            for (time, pixels) in std::mem::take(&mut self.recent) {
                let frame = self.journal.frame(time, &pixels)?;
                self.frames.push(frame);
            }
        }
        self.mark(mark, self.starts + time)?;
        Ok(true)
    }

    /// The label of a key that is held, from devices that know; none while none is.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn hold(&mut self, held: Option<bool>, time: f64) -> Result<bool, LabellingError> {
        self.key(held.map_or(LabelKey::Off, |c| if c { LabelKey::Success } else { LabelKey::Fail }), time)
    }

    /// A new frame was taken.
    ///
    /// # Errors
    /// When it has another size than the others, or the journal cannot be written.
    pub fn frame(&mut self, time: f64, pixels: &[u8]) -> Result<(), LabellingError> {
        let time = self.starts + time;
        let Some(class) = self.running() else {
            self.recent.push_back((time, pixels.to_vec()));
            while self.recent.front().is_some_and(|(oldest, _)| time - oldest > LONGEST_LAG_SECS) {
                self.recent.pop_front();
            }
            return Ok(());
        };
        let frame = self.journal.frame(time, pixels)?;
        self.frames.push(frame);
        self.count();
        if self.has_enough(class) {
            self.mark(Mark::Enough, time)?;
        }
        Ok(())
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn sync(&mut self) -> Result<(), LabellingError> {
        self.journal.sync()
    }

    fn has_enough(&self, class: bool) -> bool {
        let at = usize::from(!class);
        self.counts[at] >= self.settings.targets[at]
    }

    fn mark(&mut self, mark: Mark, time: f64) -> Result<(), LabellingError> {
        let mark = TimedMark { time, mark };
        self.journal.mark(mark)?;
        self.marks.push(mark);
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        let times: Vec<f64> = self.frames.iter().map(|frame| frame.time).collect();
        let labels = labels(&times, &self.marks, self.settings.lag_secs);
        self.counts = [true, false].map(|class| labels.iter().filter(|label| **label == Some(class)).count());
    }
}

/// Refuses lags that nobody has.
pub(super) fn check_lag(lag_secs: f64) -> Result<(), LabellingError> {
    if (0.0..=LONGEST_LAG_SECS).contains(&lag_secs) {
        return Ok(());
    }
    Err(LabellingError::Setting {
        name: "the reaction lag",
        value: lag_secs,
        expected: "from 0 to 2 seconds",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labelling::Recovered;

    fn settings(targets: [usize; 2], lag_secs: f64) -> SessionSettings {
        let header = JournalHeader { camera: "wrist_1".into(), height: 1, width: 1 };
        SessionSettings { header, targets, lag_secs }
    }

    /// Ten frames a second from `from` to `to`.
    fn film(session: &mut Session, from: f64, to: f64) {
        let mut tick = (10.0 * from).round() as u32;
        while f64::from(tick) < (10.0 * to).round() {
            session.frame(f64::from(tick) / 10.0, &[1, 2, 3]).unwrap();
            tick += 1;
        }
    }

    #[test]
    fn keys_label_frames_and_can_be_undone() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = Session::open(folder.path(), settings([50, 150], 0.0)).unwrap();
        film(&mut session, 0.0, 5.0);
        assert!(session.key(LabelKey::Fail, 5.0).unwrap());
        film(&mut session, 5.0, 7.0);
        assert!(!session.key(LabelKey::Fail, 6.0).unwrap(), "a key that repeats");
        assert!(session.key(LabelKey::Success, 7.0).unwrap());
        film(&mut session, 7.0, 8.0);
        assert_eq!((session.counts(), session.running()), ([10, 20], Some(true)));
        assert!(session.key(LabelKey::Undo, 8.0).unwrap());
        assert_eq!((session.counts(), session.running()), ([0, 20], None));
        assert!(session.key(LabelKey::Undo, 8.1).unwrap());
        assert!(!session.key(LabelKey::Undo, 8.2).unwrap(), "nothing is left");
        assert_eq!(session.counts(), [0, 0]);
        session.sync().unwrap();
    }

    #[test]
    fn enough_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = Session::open(folder.path(), settings([5, 3], 0.0)).unwrap();
        session.hold(Some(true), 0.0).unwrap();
        film(&mut session, 0.0, 2.0);
        assert_eq!((session.counts(), session.running(), session.is_done()), ([5, 0], None, false));
        assert!(!session.hold(Some(true), 2.0).unwrap());
        assert!(session.hold(Some(false), 2.0).unwrap());
        film(&mut session, 2.0, 3.0);
        assert_eq!((session.counts(), session.is_done()), ([5, 3], true));
    }

    #[test]
    fn frames_before_the_key_are_kept_for_the_lag() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = Session::open(folder.path(), settings([50, 150], 0.3)).unwrap();
        film(&mut session, 0.0, 60.0);
        session.key(LabelKey::Success, 60.0).unwrap();
        assert_eq!(session.counts(), [3, 0], "the person saw it 0.3 s ago");
        film(&mut session, 60.0, 61.0);
        session.key(LabelKey::Off, 61.0).unwrap();
        assert_eq!(session.counts(), [10, 0]);
        session.sync().unwrap();
        let kept = Recovered::read(folder.path()).unwrap().frames.len();
        assert!((30..=31).contains(&kept), "two seconds before and one after, not a minute: {kept}");
        assert!(Session::open(folder.path(), settings([1, 1], 2.5)).is_err());
    }

    #[test]
    fn a_killed_session_is_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = Session::open(folder.path(), settings([50, 150], 0.0)).unwrap();
        session.key(LabelKey::Success, 0.0).unwrap();
        film(&mut session, 0.0, 1.0);
        drop(session); // nothing is said at the end, as when it is killed
        let mut session = Session::open(folder.path(), settings([50, 150], 0.0)).unwrap();
        assert_eq!((session.counts(), session.running()), ([10, 0], None));
        film(&mut session, 0.0, 1.0);
        assert_eq!(session.counts(), [10, 0], "frames of the new session have no label");
        session.key(LabelKey::Undo, 1.0).unwrap();
        assert_eq!(session.counts(), [0, 0], "undo reaches back");
    }
}
