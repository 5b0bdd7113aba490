//! A link that is worse than any: it loses, repeats, delays and reorders what it carries.

use std::sync::Arc;

use plaudit_cluster::link::{LinkError, LinkSender};
use plaudit_core::{Rng, Seed};

/// How bad it is: shares of what is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) dropped: f64,
    pub(crate) repeated: f64,
    /// Sent after something else.
    pub(crate) delayed: f64,
    pub(crate) seed: u64,
}

impl Loss {
    pub(crate) const NONE: Self = Self { dropped: 0.0, repeated: 0.0, delayed: 0.0, seed: 0 };

    pub(crate) fn around(self, link: Box<dyn LinkSender>, number: u64) -> Box<dyn LinkSender> {
        Box::new(Lossy { link, loss: self, rng: Seed::new(self.seed).index(number).rng(), held: Vec::new() })
    }
}

struct Lossy {
    link: Box<dyn LinkSender>,
    loss: Loss,
    rng: Rng,
    held: Vec<(usize, Arc<str>, Vec<u8>)>,
}

impl LinkSender for Lossy {
    fn send(
        &mut self,
        peer: &Arc<str>,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LinkError> {
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        let (fate, repeats) = (self.rng.unit(), self.rng.unit() < self.loss.repeated);
        if fate < self.loss.dropped {
            // Gone.
        } else if fate < self.loss.dropped + self.loss.delayed {
            self.held.push((1 + self.rng.below(4), peer.clone(), bytes.clone()));
        } else {
            self.pass(peer, &bytes)?;
        }
        if repeats {
            self.pass(peer, &bytes)?;
        }
        self.held.iter_mut().for_each(|(wait, ..)| *wait = wait.saturating_sub(1));
        let (due, held) = std::mem::take(&mut self.held).into_iter().partition(|(wait, ..)| *wait == 0);
        self.held = held;
        let due: Vec<(usize, Arc<str>, Vec<u8>)> = due;
        due.iter().try_for_each(|(_, peer, bytes)| self.pass(peer, bytes))
    }
}

impl Lossy {
    fn pass(&mut self, peer: &Arc<str>, bytes: &[u8]) -> Result<(), LinkError> {
        self.link.send(peer, bytes.len(), &mut |into| into.copy_from_slice(bytes))
    }
}
