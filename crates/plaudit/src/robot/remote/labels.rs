//! What a person says of the frames of an episode while it runs, by switching a label on and off.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use plaudit_data::episode::Episode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a person says of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FrameAnswer {
    /// It shows success.
    Success,
    /// It does not.
    Failure,
}

/// How a person ends an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PersonEnd {
    /// The task is solved.
    Success,
    /// It is not.
    Failure,
    /// It is not kept.
    Discard,
}

/// A label that was switched on, and what was there before.
#[derive(Debug, Clone)]
struct Press {
    from: usize,
    before: Vec<Option<FrameAnswer>>,
    on_before: Option<FrameAnswer>,
}

/// The labels of an episode so far, one for each frame. The first is what the reset showed.
#[derive(Debug, Clone)]
pub(crate) struct FrameLabels {
    frames: Vec<Option<FrameAnswer>>,
    on: Option<FrameAnswer>,
    presses: Vec<Press>,
}

impl Default for FrameLabels {
    fn default() -> Self {
        Self { frames: vec![None], on: None, presses: Vec::new() }
    }
}

impl FrameLabels {
    /// Another frame is shown.
    pub(crate) fn frame(&mut self) {
        self.frames.push(self.on);
    }

    /// The frame that is shown.
    pub(crate) fn at(&self) -> usize {
        self.frames.len() - 1
    }

    /// The label that is on.
    pub(crate) fn on(&self) -> Option<FrameAnswer> {
        self.on
    }

    /// From a frame on, which may be one before the frame that is shown: people press late.
    pub(crate) fn switch(&mut self, to: Option<FrameAnswer>, from: usize) {
        let from = from.min(self.at());
        self.presses.push(Press { from, before: self.frames[from..].to_vec(), on_before: self.on });
        self.frames[from..].fill(to);
        self.on = to;
    }

    /// Takes the last switch back; whether there was one.
    pub(crate) fn undo(&mut self) -> bool {
        let Some(Press { from, before, on_before }) = self.presses.pop() else { return false };
        let then = from + before.len();
        self.frames[from..then].copy_from_slice(&before);
        self.frames[then..].fill(on_before);
        self.on = on_before;
        true
    }

    /// Frames in a row with one label: from, up to and without, and which.
    pub(crate) fn spans(&self) -> Vec<(usize, usize, FrameAnswer)> {
        let mut spans: Vec<(usize, usize, FrameAnswer)> = Vec::new();
        for (at, answer) in self.frames.iter().enumerate() {
            match (answer, spans.last_mut()) {
                (Some(answer), Some((_, end, last))) if *end == at && last == answer => *end += 1,
                (Some(answer), _) => spans.push((at, at + 1, *answer)),
                (None, _) => {}
            }
        }
        spans
    }

    /// Puts what was said into an episode: it takes the place of the task's own success and reward. A success is worth 1, the end of a
    /// failure -1, as where keys label; a frame of which nothing was said is no success.
    pub(crate) fn write_into(&self, episode: &mut Episode, end: PersonEnd) {
        let last = episode.timesteps.len().saturating_sub(1);
        for (at, timestep) in episode.timesteps.iter_mut().enumerate().skip(1) {
            let is_end = at == last;
            let is_success = match self.frames.get(at).copied().flatten() {
                Some(answer) => answer == FrameAnswer::Success,
                None => is_end && end == PersonEnd::Success,
            };
            timestep.success = Some(is_success);
            timestep.reward = match (is_success, is_end && end == PersonEnd::Failure) {
                (_, true) => -1.0,
                (true, false) => 1.0,
                (false, false) => 0.0,
            };
        }
        episode.success = end == PersonEnd::Success;
    }
}

/// A file of lines that are on the disk before anybody is told that they are.
pub(crate) struct Journal(File);

impl Journal {
    /// The file's name in the folder of a session.
    pub(crate) const FILE: &'static str = "labels.jsonl";

    /// Goes on with the journal of a folder, or begins it.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        File::options().create(true).append(true).open(folder.join(Self::FILE)).map(Self)
    }

    /// Appends a line.
    pub(crate) fn append(&mut self, line: &Value) -> io::Result<()> {
        self.0.write_all(format!("{line}\n").as_bytes())?;
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FrameAnswer::{Failure, Success};
    use plaudit_core::End;
    use plaudit_data::episode::Timestep;

    fn after(frames: usize, labels: &mut FrameLabels) {
        (0..frames).for_each(|_| labels.frame());
    }

    #[test]
    fn a_label_lasts_until_another_one_and_is_moved_back() {
        let mut labels = FrameLabels::default();
        after(4, &mut labels);
        labels.switch(Some(Failure), 4);
        after(6, &mut labels);
        labels.switch(Some(Success), 8);
        after(2, &mut labels);
        labels.switch(None, 12);
        after(3, &mut labels);
        assert_eq!(labels.spans(), [(4, 8, Failure), (8, 12, Success)]);
        assert_eq!((labels.at(), labels.on()), (15, None));
        assert!(labels.undo());
        assert_eq!(labels.spans(), [(4, 8, Failure), (8, 16, Success)], "it is on again");
        assert!(labels.undo());
        assert_eq!(labels.spans(), [(4, 16, Failure)]);
        assert!(labels.undo() && !labels.undo());
        assert_eq!((labels.spans(), labels.on()), (Vec::new(), None));
    }

    fn episode(steps: usize) -> Episode {
        let timestep = |end| Timestep { reward: 0.3, end, success: Some(true), facts: Vec::new() };
        let mut timesteps = vec![timestep(End::No); steps + 1];
        timesteps[0].success = None;
        Episode {
            row: 0,
            number: 0,
            batch_step: 0,
            success: false,
            task: None,
            cameras: Vec::new(),
            states: Vec::new(),
            actions: Vec::new(),
            timesteps,
        }
    }

    #[test]
    fn what_was_said_takes_the_place_of_the_task() {
        let mut labels = FrameLabels::default();
        after(3, &mut labels);
        labels.switch(Some(Success), 3);
        after(2, &mut labels);
        let said = |end: PersonEnd| {
            let mut episode = episode(5);
            labels.write_into(&mut episode, end);
            let of = |one: &Timestep| (one.success, one.reward);
            (episode.success, episode.timesteps[1..].iter().map(of).collect::<Vec<_>>())
        };
        let (no, yes) = ((Some(false), 0.0), (Some(true), 1.0));
        assert_eq!(said(PersonEnd::Success), (true, vec![no, no, yes, yes, yes]));
        assert_eq!(said(PersonEnd::Failure), (false, vec![no, no, yes, yes, (Some(true), -1.0)]));
        let mut nothing_said = episode(3);
        FrameLabels::default().write_into(&mut nothing_said, PersonEnd::Success);
        let last = nothing_said.timesteps.pop().unwrap();
        assert_eq!((last.success, last.reward), (Some(true), 1.0), "the end itself is one");
        assert!(nothing_said.timesteps[1..].iter().all(|one| one.success == Some(false)));
    }
}
