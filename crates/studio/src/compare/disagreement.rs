//! Frames of which raters say different things, the widest gaps first.

use crate::library::EpisodeKey;

/// What one rater says of an episode.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    /// Whether each frame is a success; nothing where it does not say.
    pub(crate) success: Vec<Option<bool>>,
    /// How sure it is, from 0 to 1: the truth is one of them.
    pub(crate) value: Vec<f32>,
}

/// Frames in a row of which the same raters say yes and the same ones no.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Disagreement {
    pub(crate) episode: EpisodeKey,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The frame with the widest gap.
    pub(crate) worst: usize,
    /// How far apart they are there.
    pub(crate) gap: f64,
    /// What each rater says.
    pub(crate) says: Vec<Option<bool>>,
}

impl Disagreement {
    /// Wide gaps over many frames come first.
    fn weight(&self) -> f64 {
        self.gap * (self.to - self.from) as f64
    }
}

/// Every disagreement about an episode.
fn of_episode(episode: &EpisodeKey, said: &[Said]) -> Vec<Disagreement> {
    let frames = said.iter().map(|one| one.success.len()).min().unwrap_or(0);
    let says = |at: usize| -> Vec<Option<bool>> { said.iter().map(|one| one.success[at]).collect() };
    let gap = |at: usize| {
        let values = said.iter().filter(|one| one.success[at].is_some()).map(|one| f64::from(one.value[at]));
        let (low, high) =
            values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        (high - low).max(0.0)
    };
    let mut found = Vec::new();
    let mut from = 0;
    while from < frames {
        let said_here = says(from);
        let to = (from..frames).find(|at| says(*at) != said_here).unwrap_or(frames);
        if said_here.contains(&Some(true)) && said_here.contains(&Some(false)) {
            let worst = (from..to).max_by(|a, b| gap(*a).total_cmp(&gap(*b)).then(b.cmp(a))).unwrap_or(from);
            let (episode, gap) = (episode.clone(), gap(worst));
            found.push(Disagreement { episode, from, to, worst, gap, says: said_here });
        }
        from = to;
    }
    found
}

/// Every disagreement, the widest first.
pub(crate) fn disagreements(episodes: &[(EpisodeKey, Vec<Said>)]) -> Vec<Disagreement> {
    let mut found: Vec<Disagreement> =
        episodes.iter().flat_map(|(key, said)| of_episode(key, said)).collect();
    found.sort_by(|one, other| {
        let by_weight = other.weight().total_cmp(&one.weight());
        by_weight.then_with(|| (&one.episode, one.from).cmp(&(&other.episode, other.from)))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(values: &[f32]) -> Said {
        Said { success: values.iter().map(|value| Some(*value > 0.5)).collect(), value: values.to_vec() }
    }

    #[test]
    fn frames_in_a_row_are_one_disagreement_and_the_widest_comes_first() {
        let key = |item| EpisodeKey { dataset: "d".into(), item, part: 0 };
        let narrow = vec![said(&[0.1, 0.6, 0.1]), said(&[0.1, 0.4, 0.1])];
        let wide = vec![said(&[0.9, 0.8, 0.1, 0.1]), said(&[0.2, 0.0, 0.0, 0.9])];
        let found = disagreements(&[(key(0), narrow), (key(1), wide)]);
        let brief: Vec<_> = found.iter().map(|one| (one.episode.item, one.from, one.to, one.worst)).collect();
        assert_eq!(brief, [(1, 0, 2, 1), (1, 3, 4, 3), (0, 1, 2, 1)]);
        assert_eq!(found[0].says, [Some(true), Some(false)]);
        assert!((found[0].gap - 0.8).abs() < 1e-6);
    }

    #[test]
    fn who_says_nothing_disagrees_with_nobody() {
        let silent = Said { success: vec![None; 2], value: vec![0.0; 2] };
        let key = EpisodeKey { dataset: "d".into(), item: 0, part: 0 };
        assert!(disagreements(&[(key.clone(), vec![said(&[0.9, 0.1]), silent.clone()])]).is_empty());
        let found = disagreements(&[(key, vec![said(&[0.9, 0.1]), silent, said(&[0.8, 0.9])])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].from == 1 && (found[0].gap - 0.8).abs() < 1e-6, "{found:?}");
    }
}
