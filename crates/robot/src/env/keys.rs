//! Episodes that a person rewards and ends by key, as RLinf's keyboard wrappers let them.

use std::time::Duration;

use crate::{Key, Time};

/// Rewards of the stages that `a`, `b` and `c` choose.
const STAGE_REWARDS: [f32; 3] = [0.0, 0.1, 1.0];
/// A key that comes again within this is held: terminals repeat those.
const REPEATS_WITHIN: Duration = Duration::from_secs(1);

/// What keys mean while an arm moves. What they say takes the place of the task's own reward, success and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpisodeKeys {
    /// `c` is success, a reward of 1, and `a` failure, a reward of -1; both end the episode. `b` takes back what was pressed
    /// in the same step.
    SingleStage,
    /// `a`, `b` and `c` choose a stage, which has a reward of 0, 0.1 or 1 until another one is chosen; the last one ends the
    /// episode. `q` is a reward of -1 for a step.
    MultiStage,
    /// `a` begins to record, or drops what was recorded; `b` begins the next segment; `c` is success and ends the episode.
    StartEnd,
}

/// What a person's keys say about a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct KeyLabel {
    pub(super) reward: f32,
    pub(super) is_end: bool,
    /// Whether the step belongs to the recording. One that does not is followed by the first that does.
    pub(super) is_recorded: bool,
    /// Segments before this one.
    pub(super) segment: u32,
}

impl KeyLabel {
    pub(super) fn is_success(&self) -> bool {
        self.reward == 1.0
    }
}

/// The keys of an episode so far.
#[derive(Debug, Clone)]
pub(super) struct KeyLabels {
    keys: EpisodeKeys,
    stage: usize,
    is_recording: bool,
    segment: u32,
    /// When a key was last pressed that must not be taken for two: `a` and `b`.
    last_pressed: [Option<Time>; 2],
}

impl KeyLabels {
    /// Those of an episode that begins.
    pub(super) fn begin(keys: EpisodeKeys) -> Self {
        let is_recording = keys != EpisodeKeys::StartEnd;
        Self { keys, stage: 0, is_recording, segment: 0, last_pressed: [None; 2] }
    }

    /// The label of a step during which these keys were pressed, and at whose end those are held.
    pub(super) fn label(&mut self, pressed: &[Key], held: &[Key], now: Time) -> KeyLabel {
        let mut letters = pressed.iter().filter_map(|key| match key {
            Key::Char(letter @ ('a' | 'b' | 'c')) => Some(*letter),
            _ => None,
        });
        match self.keys {
            EpisodeKeys::SingleStage => match letters.next_back() {
                Some('a') => self.so(-1.0, true),
                Some('c') => self.so(1.0, true),
                _ => self.so(0.0, false),
            },
            EpisodeKeys::MultiStage => {
                self.stage =
                    letters.next_back().map_or(self.stage, |letter| usize::from(letter as u8 - b'a'));
                match pressed.iter().chain(held).any(|key| *key == Key::Char('q')) {
                    true => self.so(-1.0, false),
                    false => self.so(STAGE_REWARDS[self.stage], self.stage + 1 == STAGE_REWARDS.len()),
                }
            }
            EpisodeKeys::StartEnd => self.start_or_end(letters, now),
        }
    }

    fn start_or_end(&mut self, letters: impl Iterator<Item = char>, now: Time) -> KeyLabel {
        let was_recording = self.is_recording;
        for letter in letters {
            match letter {
                'a' if self.is_new_press(0, now) => {
                    (self.is_recording, self.segment) = (!self.is_recording, 0)
                }
                'b' if self.is_new_press(1, now) && self.is_recording => self.segment += 1,
                'c' if self.is_recording && was_recording => return self.so(1.0, true),
                _ => {}
            }
        }
        // The step that ends with the press is not yet recorded: what it shows is where the recording begins.
        let is_recorded = self.is_recording && was_recording;
        KeyLabel { is_recorded, ..self.so(0.0, false) }
    }

    /// Whether a press is one of its own, and not that of a key that is held.
    fn is_new_press(&mut self, key: usize, now: Time) -> bool {
        let before = self.last_pressed[key].replace(now);
        before.is_none_or(|before| now.since(before) >= REPEATS_WITHIN)
    }

    fn so(&self, reward: f32, is_end: bool) -> KeyLabel {
        KeyLabel { reward, is_end, is_recorded: true, segment: self.segment }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of a tenth of a second, with the letters that were pressed in each: reward, end, recorded, segment.
    fn labels(keys: EpisodeKeys, steps: &[&str]) -> Vec<(f32, bool, bool, u32)> {
        let mut labels = KeyLabels::begin(keys);
        let one = |(at, letters): (usize, &&str)| {
            let pressed: Vec<Key> = letters.chars().map(Key::Char).collect();
            let now = Time::after_start(Duration::from_millis(100 * at as u64));
            let KeyLabel { reward, is_end, is_recorded, segment } = labels.label(&pressed, &[], now);
            (reward, is_end, is_recorded, segment)
        };
        steps.iter().enumerate().map(one).collect()
    }

    #[test]
    fn one_stage_has_success_and_failure() {
        let said = labels(EpisodeKeys::SingleStage, &["", "b", "x", "cb", "bc", "a"]);
        let none = (0.0, false, true, 0);
        assert_eq!(said, [none, none, none, none, (1.0, true, true, 0), (-1.0, true, true, 0)]);
    }

    #[test]
    fn stages_stay_and_q_is_for_a_step() {
        let said = labels(EpisodeKeys::MultiStage, &["", "b", "", "q", "", "a", "bc"]);
        let rewards: Vec<f32> = said.iter().map(|label| label.0).collect();
        assert_eq!(rewards, [0.0, 0.1, 0.1, -1.0, 0.1, 0.0, 1.0]);
        assert_eq!(said.iter().position(|label| label.1), Some(6));
        let mut labels = KeyLabels::begin(EpisodeKeys::MultiStage);
        labels.label(&[Key::Char('c')], &[], Time::default());
        let label = labels.label(&[], &[Key::Char('q')], Time::default());
        assert_eq!((label.reward, label.is_end), (-1.0, false), "while it is held");
    }

    #[test]
    fn recordings_start_are_dropped_and_end() {
        let mut steps = vec![""; 40];
        (steps[1], steps[3], steps[4], steps[5]) = ("c", "a", "b", "b");
        (steps[6], steps[20], steps[33], steps[36]) = ("a", "a", "a", "c");
        let said = labels(EpisodeKeys::StartEnd, &steps);
        let recorded: Vec<usize> = (0..40).filter(|at| said[*at].2).collect();
        let (first, second) = (4..20, 34..40);
        assert_eq!(
            recorded,
            first.chain(second).collect::<Vec<_>>(),
            "a press that repeats is no second one"
        );
        assert_eq!((said[4].3, said[19].3, said[34].3), (1, 1, 0), "segments");
        let ends: Vec<usize> = (0..40).filter(|at| said[*at].1).collect();
        assert_eq!((ends, said[36].0), (vec![36], 1.0), "nothing ends that is not recorded");
    }
}
