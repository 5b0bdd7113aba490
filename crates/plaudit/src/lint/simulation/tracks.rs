//! Score tracks: what a model would say, step by step, about policies of a few kinds.

/// What a policy does in an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Stays far from success.
    Never,
    /// Comes near, and stays where the model is not convinced.
    HoversBelow,
    /// Comes near, and stays where the model is convinced and the task is not solved.
    HoversAbove,
    /// Comes near and moves away again, over and over.
    Dithers,
    /// Solves the task and loses it at the next step.
    SucceedsOnce,
    /// Solves the task and keeps it solved.
    SucceedsAndStays,
    /// Solves the task just before the clock runs out.
    SucceedsLate,
}

impl Behaviour {
    pub(super) const ALL: [Self; 7] = [
        Self::Never,
        Self::HoversBelow,
        Self::HoversAbove,
        Self::Dithers,
        Self::SucceedsOnce,
        Self::SucceedsAndStays,
        Self::SucceedsLate,
    ];

    /// In words, for the table.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Never => "never near success",
            Self::HoversBelow => "hovers below the threshold",
            Self::HoversAbove => "hovers above it, unsolved",
            Self::Dithers => "goes back and forth",
            Self::SucceedsOnce => "succeeds once, loses it",
            Self::SucceedsAndStays => "succeeds, and stays",
            Self::SucceedsLate => "succeeds late",
        }
    }

    /// Its name in data.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::HoversBelow => "hovers_below",
            Self::HoversAbove => "hovers_above",
            Self::Dithers => "dithers",
            Self::SucceedsOnce => "succeeds_once",
            Self::SucceedsAndStays => "succeeds_and_stays",
            Self::SucceedsLate => "succeeds_late",
        }
    }

    /// Whether the task is solved at some step.
    pub(crate) fn succeeds(self) -> bool {
        match self {
            Self::SucceedsOnce | Self::SucceedsAndStays | Self::SucceedsLate => true,
            Self::Never | Self::HoversBelow | Self::HoversAbove | Self::Dithers => false,
        }
    }
}

/// What tracks are made for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TrackSettings {
    /// Steps of an episode.
    pub(super) steps: usize,
    /// The score above which the reward sees success.
    pub(super) threshold: f32,
    /// Steps for which it must.
    pub(super) hold: usize,
    /// Steps that the longest window shows, or that lie between windows; 1 without windows.
    pub(super) window: usize,
}

/// One frame of a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TrackFrame {
    /// What the model says.
    pub(super) score: f32,
    /// Whether conditions on the state hold: they do near success and in it.
    pub(super) conditions: bool,
    /// Whether the task is solved.
    pub(super) solved: bool,
}

impl TrackSettings {
    /// Scores below, above and far above the threshold. One of 0 parts nothing, so that these are then those of 0.5.
    fn levels(&self) -> Levels {
        let threshold = if self.threshold > 0.0 { self.threshold.min(1.0) } else { 0.5 };
        let above = |share: f32| (threshold + share * (1.0 - threshold)).min(1.0);
        Levels {
            far: 0.02f32.min(threshold / 2.0),
            below: 0.8 * threshold,
            above: above(0.5),
            high: above(0.9),
        }
    }

    /// The first step after which the model sees success, for those who take a quarter of the time.
    fn arrival(&self) -> usize {
        (self.steps / 4).max(1)
    }

    /// What is seen at outcome `number` of an episode, from 0 (the reset) to the last step.
    pub(super) fn frame(&self, behaviour: Behaviour, number: usize) -> TrackFrame {
        let (levels, arrival) = (self.levels(), self.arrival());
        let late = self.steps.saturating_sub(self.hold).max(arrival);
        let near = |score: f32| TrackFrame { score, conditions: true, solved: false };
        let solved = TrackFrame { score: levels.high, conditions: true, solved: true };
        let approach = |until: usize| {
            let share = (number as f32 / until as f32).min(1.0);
            let score = levels.far + share * (levels.below - levels.far);
            TrackFrame { score, conditions: false, solved: false }
        };
        match behaviour {
            Behaviour::Never => TrackFrame { score: levels.far, conditions: false, solved: false },
            Behaviour::HoversBelow if number >= arrival => near(levels.below),
            Behaviour::HoversAbove if number >= arrival => near(levels.above),
            Behaviour::SucceedsOnce if (arrival..arrival + self.hold).contains(&number) => solved,
            Behaviour::SucceedsOnce if number > arrival => near(levels.below),
            Behaviour::SucceedsAndStays if number >= arrival => solved,
            Behaviour::SucceedsLate if number >= late => solved,
            Behaviour::SucceedsLate => approach(late),
            Behaviour::Dithers => self.swing(number),
            Behaviour::HoversBelow
            | Behaviour::HoversAbove
            | Behaviour::SucceedsOnce
            | Behaviour::SucceedsAndStays => approach(arrival),
        }
    }

    /// Up to just below the threshold and down again, each as long as a window.
    fn swing(&self, number: usize) -> TrackFrame {
        let (levels, half) = (self.levels(), self.window.max(2));
        let at = number % (2 * half);
        let up = if at <= half { at } else { 2 * half - at };
        let score = levels.far + (levels.below - levels.far) * up as f32 / half as f32;
        TrackFrame { score, conditions: up == half, solved: false }
    }
}

/// Scores of a track.
#[derive(Debug, Clone, Copy)]
struct Levels {
    far: f32,
    below: f32,
    above: f32,
    high: f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(settings: TrackSettings, behaviour: Behaviour) -> Vec<f32> {
        (0..=settings.steps).map(|number| settings.frame(behaviour, number).score).collect()
    }

    #[test]
    fn tracks_lie_where_their_names_say() {
        for threshold in [0.0, 0.3, 0.5, 0.9, 0.999] {
            let settings = TrackSettings { steps: 40, threshold, hold: 3, window: 1 };
            let level = if threshold == 0.0 { 0.5 } else { threshold };
            let highest = |behaviour| scores(settings, behaviour).into_iter().fold(0.0, f32::max);
            for behaviour in [Behaviour::Never, Behaviour::HoversBelow, Behaviour::Dithers] {
                assert!(highest(behaviour) < level, "{behaviour:?} at {threshold}");
            }
            for behaviour in [
                Behaviour::HoversAbove,
                Behaviour::SucceedsOnce,
                Behaviour::SucceedsAndStays,
                Behaviour::SucceedsLate,
            ] {
                assert!(
                    highest(behaviour) > level && highest(behaviour) < 1.0,
                    "{behaviour:?} at {threshold}"
                );
            }
            for behaviour in Behaviour::ALL {
                let solved = (0..=40).filter(|number| settings.frame(behaviour, *number).solved).count();
                assert_eq!(solved > 0, behaviour.succeeds(), "{behaviour:?}");
            }
        }
    }

    #[test]
    fn what_goes_back_and_forth_comes_back_to_where_it_began() {
        let settings = TrackSettings { steps: 40, threshold: 0.5, hold: 1, window: 5 };
        let scores = scores(settings, Behaviour::Dithers);
        assert_eq!((scores[0], scores[10], scores[20]), (scores[0], scores[0], scores[0]));
        assert!(scores[5] > scores[4] && scores[5] > scores[6]);
    }

    #[test]
    fn success_lasts_as_long_as_it_must() {
        let settings = TrackSettings { steps: 40, threshold: 0.5, hold: 4, window: 1 };
        let solved = |behaviour| (1..=40).filter(|number| settings.frame(behaviour, *number).solved).count();
        assert_eq!(solved(Behaviour::SucceedsOnce), 4);
        assert_eq!(solved(Behaviour::SucceedsLate), 5);
        assert_eq!(solved(Behaviour::SucceedsAndStays), 31);
    }
}
