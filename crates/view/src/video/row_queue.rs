//! The images of one environment, in the order in which a video shows them.
//!
//! A step gives a row one image, and two where an episode ends: the last of the old one and the first of the next. A
//! frame of the video takes at most one from each row. So a row that ended alone runs behind the others from then on;
//! no row ever waits for another, repeats an image or leaves one out.

use std::collections::VecDeque;

use plaudit_draw::Canvas;

/// Where in its episode an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What `reset` returned, or what an environment that reset itself shows.
    First,
    /// Any other.
    Within,
    /// The last: its border says how the episode went.
    Last,
}

/// Images on their way into the video.
#[derive(Debug, Default)]
pub(super) struct RowQueue {
    waiting: VecDeque<(Kind, Canvas)>,
    shown: Option<Canvas>,
    /// For how many more frames the end of an episode stays.
    hold: usize,
}

impl RowQueue {
    pub(super) fn push(&mut self, kind: Kind, image: Canvas) {
        self.waiting.push_back((kind, image));
    }

    /// Whether an image waits that belongs into this video. The first of an episode goes with what follows it: after
    /// a flush that is the next video.
    pub(super) fn is_due(&self) -> bool {
        self.waiting.len() > 1 || self.waiting.front().is_some_and(|(kind, _)| *kind != Kind::First)
    }

    /// Whether the next frame can show a new image.
    pub(super) fn is_ready(&self) -> bool {
        self.hold == 0 && self.is_due()
    }

    /// How many images this row is behind.
    pub(super) fn behind(&self) -> usize {
        self.waiting.len()
    }

    /// Goes on by one frame. The end of an episode stays for `linger` frames, less those that the row is behind already.
    pub(super) fn advance(&mut self, linger: usize) {
        if self.hold > 0 {
            self.hold -= 1;
        } else if self.is_due()
            && let Some((kind, image)) = self.waiting.pop_front()
        {
            self.shown = Some(image);
            if kind == Kind::Last {
                // The first image of the next episode waits already and is no delay.
                self.hold = linger.saturating_sub(1 + self.waiting.len().saturating_sub(1));
            }
        }
    }

    /// Frames for which nothing changes here.
    pub(super) fn hold(&self) -> usize {
        self.hold
    }

    /// So many of them are shown at once.
    pub(super) fn skip_hold(&mut self, frames: usize) {
        self.hold = self.hold.saturating_sub(frames);
    }

    pub(super) fn shown(&self) -> Option<&Canvas> {
        self.shown.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(images: &[(Kind, u8)]) -> RowQueue {
        let mut queue = RowQueue::default();
        images.iter().for_each(|(kind, grey)| queue.push(*kind, Canvas::filled(1, 1, [*grey; 3])));
        queue
    }

    fn shown(queue: &mut RowQueue, frames: usize, linger: usize) -> Vec<u8> {
        let next = |_| {
            queue.advance(linger);
            queue.shown().map_or(0, |image| image.at(0, 0)[0])
        };
        (0..frames).map(next).collect()
    }

    #[test]
    fn an_end_stays_and_then_the_next_episode_begins() {
        use Kind::{First, Last, Within};
        let images = [(First, 1), (Within, 2), (Last, 3), (First, 4), (Within, 5)];
        assert_eq!(shown(&mut queue(&images), 5, 0), [1, 2, 3, 4, 5], "each once, in order");
        assert_eq!(
            shown(&mut queue(&images), 7, 3),
            [1, 2, 3, 3, 4, 5, 5],
            "one image behind: one frame less"
        );
        assert_eq!(
            shown(&mut queue(&images[..4]), 7, 3),
            [1, 2, 3, 3, 3, 3, 3],
            "a first image waits for more"
        );
        assert!(!queue(&images[..1]).is_due() && queue(&images[1..2]).is_due());
    }
}
