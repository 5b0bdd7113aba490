//! A few hundred colours that stand for all colours of a video.
//!
//! Colours are counted ([`Histogram`]), then split into groups, always the group that errs most, at its mean along its
//! longest axis; the groups' means, moved twice to the middle of what they stand for, are the palette. A video that
//! has no more colours than the palette holds keeps every one exactly.

use std::collections::HashMap;

use super::picture::Rgb;

/// How much a difference in red, green and blue counts to the eye.
pub(super) const EYE: [f32; 3] = [2.0, 4.0, 3.0];
/// Colours counted apart before similar ones are counted together.
const MOST_COUNTED: usize = 8192;
/// Times the palette is moved to the middle of what it stands for.
const REFINEMENTS: usize = 2;

/// Counts of colours. Exact while they are few; beyond that, neighbours are counted as one with their mean.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Bits of each channel that tell colours apart.
    bits: u32,
    /// Sums of the channels, and the count.
    counts: HashMap<[u8; 3], [u64; 4]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { bits: 8, counts: HashMap::new() }
    }
}

impl Histogram {
    /// Counts one colour `times` times.
    pub(super) fn count(&mut self, colour: Rgb, times: u64) {
        let sums = colour.map(|channel| u64::from(channel) * times);
        self.add([sums[0], sums[1], sums[2], times], colour);
        if self.counts.len() > MOST_COUNTED && self.bits > 5 {
            self.coarsen();
        }
    }

    fn add(&mut self, sums: [u64; 4], colour: Rgb) {
        let key = colour.map(|channel| channel >> (8 - self.bits));
        let entry = self.counts.entry(key).or_default();
        for (entry, sum) in entry.iter_mut().zip(sums) {
            *entry += sum;
        }
    }

    /// Counts neighbours together.
    fn coarsen(&mut self) {
        self.bits -= 1;
        for (key, sums) in std::mem::take(&mut self.counts) {
            let shift = 7 - self.bits;
            self.add(sums, key.map(|channel| channel << shift));
        }
    }

    /// The colours in a fixed order. Rare ones weigh more than their count: a small thing matters as well.
    fn weighted(&self) -> Vec<Weighted> {
        let mut colours: Vec<_> = self.counts.values().map(|sums| Weighted::of(*sums)).collect();
        colours.sort_by(|a, b| a.colour.map(f32::to_bits).cmp(&b.colour.map(f32::to_bits)));
        colours
    }

    /// The palette of at most `size` colours.
    pub(super) fn palette(&self, size: usize) -> Vec<Rgb> {
        let mut colours = self.weighted();
        let mut groups: Vec<Group> = Vec::with_capacity(size);
        groups.push(Group::of(0..colours.len(), &colours));
        while groups.len() < size {
            let worst = (0..groups.len()).max_by(|a, b| groups[*a].error.total_cmp(&groups[*b].error));
            let Some(worst) = worst.filter(|at| groups[*at].error > 0.0) else { break };
            let (low, high) = groups[worst].split(&mut colours);
            groups[worst] = low;
            groups.push(high);
        }
        let mut palette: Vec<[f32; 3]> = groups.iter().map(|group| group.mean).collect();
        if colours.len() > size {
            for _ in 0..REFINEMENTS {
                refine(&mut palette, &colours);
            }
        }
        palette.into_iter().map(|colour| colour.map(|channel| channel.round() as u8)).collect()
    }
}

#[derive(Debug, Clone, Copy)]
struct Weighted {
    colour: [f32; 3],
    weight: f32,
}

impl Weighted {
    fn of([red, green, blue, count]: [u64; 4]) -> Self {
        let mean = |sum: u64| (sum as f64 / count as f64) as f32;
        Self { colour: [mean(red), mean(green), mean(blue)], weight: (count as f32).sqrt() }
    }
}

/// Colours that share one place in the palette.
#[derive(Debug)]
struct Group {
    members: std::ops::Range<usize>,
    mean: [f32; 3],
    /// The channel along which they differ most.
    axis: usize,
    /// How wrong the mean is for all of them together.
    error: f32,
}

impl Group {
    fn of(members: std::ops::Range<usize>, colours: &[Weighted]) -> Self {
        let (mut sum, mut total) = ([0.0_f32; 3], 0.0);
        for Weighted { colour, weight } in &colours[members.clone()] {
            total += weight;
            for (sum, channel) in sum.iter_mut().zip(colour) {
                *sum += weight * channel;
            }
        }
        let mean = sum.map(|sum| sum / total.max(f32::MIN_POSITIVE));
        let mut spread = [0.0_f32; 3];
        for Weighted { colour, weight } in &colours[members.clone()] {
            for channel in 0..3 {
                spread[channel] += EYE[channel] * weight * (colour[channel] - mean[channel]).powi(2);
            }
        }
        let axis = (0..3).max_by(|a, b| spread[*a].total_cmp(&spread[*b])).unwrap_or(0);
        let error = if members.len() > 1 { spread.iter().sum::<f32>().max(f32::MIN_POSITIVE) } else { 0.0 };
        Self { members, mean, axis, error }
    }

    /// Those below the mean, and the rest.
    fn split(&self, colours: &mut [Weighted]) -> (Self, Self) {
        let (axis, mean) = (self.axis, self.mean[self.axis]);
        let members = &mut colours[self.members.clone()];
        members.sort_by(|a, b| a.colour[axis].total_cmp(&b.colour[axis]));
        let below = members.partition_point(|member| member.colour[axis] < mean);
        let middle = self.members.start + below.clamp(1, members.len() - 1);
        let (low, high) = (self.members.start..middle, middle..self.members.end);
        (Self::of(low, colours), Self::of(high, colours))
    }
}

/// Moves each colour of the palette to the mean of those nearest to it.
fn refine(palette: &mut [[f32; 3]], colours: &[Weighted]) {
    let mut sums = vec![[0.0_f32; 4]; palette.len()];
    for Weighted { colour, weight } in colours {
        let sum = &mut sums[nearest(palette, *colour)];
        for (sum, channel) in sum.iter_mut().zip(colour) {
            *sum += weight * channel;
        }
        sum[3] += weight;
    }
    for (colour, sum) in palette.iter_mut().zip(sums) {
        if sum[3] > 0.0 {
            *colour = [sum[0] / sum[3], sum[1] / sum[3], sum[2] / sum[3]];
        }
    }
}

/// Which colour of the palette looks most like this one.
pub(super) fn nearest(palette: &[[f32; 3]], colour: [f32; 3]) -> usize {
    let mut best = (0, f32::INFINITY);
    for (at, candidate) in palette.iter().enumerate() {
        let distance = distance(*candidate, colour);
        if distance < best.1 {
            best = (at, distance);
        }
    }
    best.0
}

/// How different two colours look, squared.
pub(super) fn distance(a: [f32; 3], b: [f32; 3]) -> f32 {
    let [red, green, blue] = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    EYE[0] * red * red + EYE[1] * green * green + EYE[2] * blue * blue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_colours_are_kept_exactly() {
        let mut histogram = Histogram::default();
        let colours: Vec<Rgb> = (0..255_u8).map(|n| [n, n / 2, 255 - n]).collect();
        colours.iter().for_each(|colour| histogram.count(*colour, 1 + u64::from(colour[0]) * 1000));
        let mut palette = histogram.palette(255);
        palette.sort_unstable();
        assert_eq!(palette, colours);
    }

    #[test]
    fn many_colours_are_counted_together_and_a_rare_one_is_not_lost() {
        let mut histogram = Histogram::default();
        for n in 0..200_000_u32 {
            histogram.count([(n % 97) as u8, (n % 89) as u8, (n % 83) as u8], 1);
        }
        histogram.count([255, 0, 0], 3);
        assert!(histogram.counts.len() <= 32_768);
        let palette = histogram.palette(255);
        assert_eq!(palette.len(), 255);
        assert!(palette.contains(&[255, 0, 0]));
    }

    #[test]
    fn nothing_counted_is_one_colour() {
        assert_eq!(Histogram::default().palette(255).len(), 1);
    }
}
