//! Paying by windows of past frames.

use std::sync::Arc;

use plaudit_core::{Reward, RewardColumn, RewardError, Score, Segment, Watch};

use super::history::{Clip, Frame, History};
use super::scores::Scores;
use super::temporal::{Latch, Pay, Rule};
use super::terms::{Columns, Entry};
use crate::judge::{ClipJudge, JudgeError, Judged, Seat, Verdict};

/// Pays by what a [`ClipJudge`] thinks of windows.
pub struct WindowReward {
    /// How it is named and logged.
    pub entry: Entry,
    /// Who judges.
    pub judge: Box<dyn ClipJudge>,
    /// Which steps have a window, and what it shows.
    pub history: History,
    /// Paid at steps without a window.
    pub between: f32,
    /// Whether a window's pay goes to each of its steps, not to the last alone. What would go to steps from before the
    /// segment is not paid: they are gone.
    pub to_every_step: bool,
}

impl Reward for WindowReward {
    fn label(&self, segment: &Segment) -> Result<RewardColumn, RewardError> {
        let clips = self.history.clips(segment)?;
        let Judged { verdicts, version } = self.judge.judge(&clips)?;
        if verdicts.len() != clips.len() {
            return Err(JudgeError::Answers { asked: clips.len(), answers: verdicts.len() }.into());
        }
        let mut columns = Columns::new(segment.end.len(), self.between);
        for (clip, verdict) in clips.iter().zip(&verdicts) {
            let Some(t) = clip.t else { continue };
            let at = segment.at(t, clip.row);
            columns.say(at, verdict.word);
            columns.pay[at] = verdict.pay;
            columns.scores[at] = verdict.score.map_or(0.0, Score::get);
            columns.success[at] = verdict.success;
        }
        columns.bonus = segment.success.iter().map(|success| self.entry.bonus(*success)).collect();
        if self.to_every_step {
            columns.pay = spread(segment, &clips, &columns.pay);
            columns.bonus = spread(segment, &clips, &columns.bonus);
        }
        let success = self.judge.sees_success().then(|| std::mem::take(&mut columns.success));
        let column = self.entry.column(columns, self.judge.words(), version)?;
        RewardColumn { success, ..column }.finite(segment.batch())
    }

    fn context(&self) -> usize {
        self.history.context(self.judge.reach())
    }

    fn watch(&self) -> Watch {
        Watch::Everything
    }

    fn version(&self) -> u64 {
        self.judge.version()
    }

    fn refresh(&self) -> Result<bool, RewardError> {
        Ok(self.judge.refresh()?)
    }
}

/// Adds what each window's last step is paid to its other steps.
fn spread(segment: &Segment, clips: &[Clip<'_>], paid: &[f32]) -> Vec<f32> {
    let mut total = paid.to_vec();
    for clip in clips {
        let Some(t) = clip.t else { continue };
        let amount = paid[segment.at(t, clip.row)];
        for back in (1..clip.length()).take_while(|back| *back <= t) {
            total[segment.at(t - back, clip.row)] += amount;
        }
    }
    total
}

/// A judge of frames that judges windows: by the mean score of their frames.
pub struct ScoredClips {
    /// Who judges the frames.
    pub seat: Arc<Seat>,
    /// The mean above which a window shows success; not set: the judge's own.
    pub threshold: Option<f32>,
    /// What a window pays.
    pub pay: Pay,
}

impl ClipJudge for ScoredClips {
    fn judge(&self, clips: &[Clip<'_>]) -> Result<Judged, JudgeError> {
        let seated = self.seat.current();
        let Some(first) = clips.first() else {
            return Ok(Judged { verdicts: Vec::new(), version: seated.version });
        };
        let mut scores = Scores::new(&*seated.judge, first.segment);
        scores.ask(clips.iter().flat_map(frames).map(|frame| frame.place))?;
        let rule = Rule { latch: Latch::Threshold(self.threshold), ..Rule::default() };
        let own = seated.judge.threshold();
        let (level, filtered) = (rule.levels(own), rule.filters(own));
        let verdict = |clip: &Clip<'_>| {
            let score = mean(frames(clip).map(|frame| scores.of(frame.place)))?;
            let success = level.decides(score) == Some(true);
            let pay = self.pay.amount(score, success, filtered);
            Ok(Verdict { pay, success, score: Some(score), word: None })
        };
        let verdicts = clips.iter().map(verdict).collect::<Result<_, JudgeError>>()?;
        Ok(Judged { verdicts, version: seated.version })
    }

    fn sees_success(&self) -> bool {
        true
    }

    fn reach(&self) -> usize {
        self.seat.current().judge.reach()
    }

    fn version(&self) -> u64 {
        self.seat.current().version
    }

    fn refresh(&self) -> Result<bool, JudgeError> {
        self.seat.refresh()
    }
}

fn frames<'c, 'a>(clip: &'c Clip<'a>) -> impl Iterator<Item = &'c Frame<'a>> {
    clip.buffers.iter().flat_map(|buffer| &buffer.frames)
}

fn mean(scores: impl Iterator<Item = Score>) -> Result<Score, JudgeError> {
    let (mut sum, mut count) = (0.0, 0);
    for score in scores {
        (sum, count) = (sum + f64::from(score.get()), count + 1);
    }
    let value = (sum / f64::from(count)) as f32;
    Score::new(value).ok_or(JudgeError::NotAScore { value, moment: 0 })
}
