//! What is there more than once.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::report::Duplicates;
use super::summary::ItemSummary;
use crate::recording::Unit;

/// Small images of two episodes that differ nowhere by more than this look alike.
const ALIKE: u8 = 6;
/// Each episode is compared with so many others of about its brightness.
const COMPARED: usize = 2_000;

/// Which items are copies of an earlier one: pairs of indices.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) exact: Vec<(usize, usize)>,
    pub(super) near: Vec<(usize, usize)>,
    /// Equal images whose labels differ: the two items, and the index in the second.
    pub(super) contradicting: Vec<(usize, usize, usize)>,
    /// Images that occurred in another item before.
    pub(super) frames: usize,
}

impl Copies {
    pub(super) fn counts(&self) -> Duplicates {
        Duplicates {
            episodes: self.exact.len(),
            near_episodes: self.near.len(),
            frames: self.frames,
            contradicting_frames: self.contradicting.len(),
        }
    }
}

/// Compares all with all, without comparing each with each.
pub(super) fn copies(summaries: &[ItemSummary]) -> Copies {
    let mut copies = Copies { exact: exact(summaries), ..Copies::default() };
    let known: HashSet<usize> = copies.exact.iter().map(|(_, copy)| *copy).collect();
    copies.near = near(summaries, &known);
    frames(summaries, &mut copies);
    let other_label =
        |pair: &&(usize, usize)| summaries[pair.0].window_label != summaries[pair.1].window_label;
    copies
        .contradicting
        .extend(copies.exact.iter().filter(other_label).map(|(one, other)| (*one, *other, 0)));
    copies
}

fn exact(summaries: &[ItemSummary]) -> Vec<(usize, usize)> {
    let mut first: HashMap<u64, usize> = HashMap::new();
    let mut pairs = Vec::new();
    for (at, summary) in summaries.iter().enumerate() {
        let Some(digest) = summary.digest else { continue };
        match first.get(&digest) {
            Some(original) => pairs.push((*original, at)),
            None => drop(first.insert(digest, at)),
        }
    }
    pairs
}

/// Images that occur again, and those of them that are labelled otherwise. A pause within an episode is no copy.
fn frames(summaries: &[ItemSummary], copies: &mut Copies) {
    let mut first: HashMap<u64, (usize, Option<bool>)> = HashMap::new();
    // Windows overlap by design: that they share frames says nothing.
    for (at, summary) in summaries.iter().enumerate().filter(|(_, summary)| summary.unit != Unit::Window) {
        let is_image_set = summary.unit == Unit::Images;
        for (frame, exact) in summary.exact.iter().enumerate() {
            let label = summary.labels.get(frame).copied().flatten();
            let Some((original, other)) = first.get(exact).copied() else {
                first.insert(*exact, (at, label));
                continue;
            };
            copies.frames += usize::from(original != at || is_image_set);
            if label.is_some() && other.is_some() && label != other {
                copies.contradicting.push((original, at, frame));
            }
        }
    }
}

/// Sorted by the brightness of what is seen first, alike ones are close to each other.
fn near(summaries: &[ItemSummary], copies: &HashSet<usize>) -> Vec<(usize, usize)> {
    let candidates = summaries
        .iter()
        .enumerate()
        .filter(|(at, summary)| !summary.thumbs.is_empty() && !copies.contains(at));
    let mut order: Vec<(u32, usize)> = candidates.map(|(at, summary)| (brightness(summary), at)).collect();
    order.sort_unstable();
    let reach = u32::from(ALIKE)
        * (summaries.iter().map(|summary| summary.thumbs.len()).max().unwrap_or(0) / 3) as u32;
    let first_alike = |(index, (light, at)): (usize, &(u32, usize))| {
        let mut close =
            order[index + 1..].iter().take_while(|(other, _)| other - light <= reach).take(COMPARED);
        let (_, other) = close.find(|(_, other)| alike(&summaries[*at], &summaries[*other]))?;
        Some(((*at).min(*other), (*at).max(*other)))
    };
    let mut pairs: Vec<(usize, usize)> = order.par_iter().enumerate().filter_map(first_alike).collect();
    pairs.sort_unstable();
    pairs
}

/// Of the first of the three small images.
fn brightness(summary: &ItemSummary) -> u32 {
    summary.thumbs[..summary.thumbs.len() / 3].iter().map(|byte| u32::from(*byte)).sum()
}

fn alike(one: &ItemSummary, other: &ItemSummary) -> bool {
    one.thumbs.len() == other.thumbs.len()
        && one.steps.abs_diff(other.steps) * 10 <= one.steps
        && one.thumbs.iter().zip(&other.thumbs).all(|(a, b)| a.abs_diff(*b) <= ALIKE)
}
