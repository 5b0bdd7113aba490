//! Whom people believe: ratings from blind choices between two.
//!
//! Bradley and Terry: one of two is chosen with the probability σ(θ₁ − θ₂); who cannot tell them apart counts as half a choice for each.
//! A normal prior of mean 0 and standard deviation [`PRIOR`] keeps a model that always won finite. The ratings are where the posterior is
//! highest, in the points of Elo (400 points are odds of ten to one), and their intervals are those of a normal distribution with the
//! curvature that it has there.

use super::ballots::{Ballot, Verdict};
use super::timing::wilson;

/// The prior's standard deviation, in natural units: 347 points of Elo.
const PRIOR: f64 = 2.0;
/// Points of Elo in a natural unit: 400 / ln 10.
const POINTS: f64 = 173.717_792_761_158_1;
/// Steps after which Newton's method is at the top: it is a smooth hill with one.
const STEPS: usize = 60;
/// What a normal distribution has to each side, 95 times of 100.
const Z: f64 = 1.959_964;

/// One model's rating.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rating {
    pub(crate) model: String,
    /// Points above the mean of all.
    pub(crate) points: f64,
    /// Points to each side, with 95 %.
    pub(crate) plus_minus: f64,
    /// Times that it was shown.
    pub(crate) shown: usize,
}

/// Two models, as people chose between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PairRecord {
    pub(crate) wins: usize,
    pub(crate) losses: usize,
    pub(crate) ties: usize,
    /// Wilson's interval of the share of wins among all that were decided.
    pub(crate) interval: (f64, f64),
}

/// How often people chose one model over another.
pub(crate) fn pair_record(ballots: &[Ballot], one: &str, other: &str) -> PairRecord {
    let (mut wins, mut losses, mut ties) = (0, 0, 0);
    for ballot in ballots {
        let is_turned = ballot.first == other && ballot.second == one;
        let is_straight = ballot.first == one && ballot.second == other;
        if !is_turned && !is_straight {
            continue;
        }
        match (ballot.verdict, is_turned) {
            (Verdict::First, false) | (Verdict::Second, true) => wins += 1,
            (Verdict::Second, false) | (Verdict::First, true) => losses += 1,
            (Verdict::Tie, _) => ties += 1,
        }
    }
    PairRecord { wins, losses, ties, interval: wilson(wins as f64, (wins + losses) as f64) }
}

/// Every model that was shown, the best first.
pub(crate) fn ratings(ballots: &[Ballot]) -> Vec<Rating> {
    let mut models: Vec<&str> = ballots.iter().flat_map(|one| [&*one.first, &*one.second]).collect();
    models.sort_unstable();
    models.dedup();
    let place = |name: &str| models.binary_search(&name).unwrap_or(0);
    let games: Vec<(usize, usize, f64)> = ballots
        .iter()
        .map(|one| (place(&one.first), place(&one.second), one.verdict.share_of_first()))
        .collect();
    let (theta, covariance) = fitted(models.len(), &games);
    let mut found: Vec<Rating> = models
        .iter()
        .enumerate()
        .map(|(at, model)| Rating {
            model: (*model).to_string(),
            points: POINTS * theta[at],
            plus_minus: POINTS * Z * covariance[at][at].max(0.0).sqrt(),
            shown: games.iter().filter(|(one, other, _)| *one == at || *other == at).count(),
        })
        .collect();
    found.sort_by(|one, other| other.points.total_cmp(&one.points));
    found
}

/// The top of the posterior, and the inverse of its curvature there.
fn fitted(models: usize, games: &[(usize, usize, f64)]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut theta = vec![0.0f64; models];
    let mut covariance = vec![vec![0.0; models]; models];
    for _ in 0..STEPS {
        let mut gradient: Vec<f64> = theta.iter().map(|value| -value / (PRIOR * PRIOR)).collect();
        let mut curvature = vec![vec![0.0; models]; models];
        (0..models).for_each(|at| curvature[at][at] = 1.0 / (PRIOR * PRIOR));
        for (one, other, share) in games {
            let expected = 1.0 / (1.0 + (theta[*other] - theta[*one]).exp());
            let weight = expected * (1.0 - expected);
            gradient[*one] += share - expected;
            gradient[*other] -= share - expected;
            curvature[*one][*one] += weight;
            curvature[*other][*other] += weight;
            curvature[*one][*other] -= weight;
            curvature[*other][*one] -= weight;
        }
        covariance = inverse(curvature);
        for at in 0..models {
            let step: f64 = covariance[at].iter().zip(&gradient).map(|(entry, slope)| entry * slope).sum();
            // Far from the top the hill is flatter than it looks.
            theta[at] += step.clamp(-1.0, 1.0);
        }
    }
    (theta, covariance)
}

/// The inverse of a positive definite matrix, by elimination: no pivot is 0.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let size = matrix.len();
    for (row, entries) in matrix.iter_mut().enumerate() {
        entries.extend((0..size).map(|column| f64::from(u8::from(column == row))));
    }
    for pivot in 0..size {
        let factor = matrix[pivot][pivot];
        matrix[pivot].iter_mut().for_each(|entry| *entry /= factor);
        let reduced = matrix[pivot].clone();
        for row in (0..size).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            matrix[row].iter_mut().zip(&reduced).for_each(|(entry, by)| *entry -= factor * by);
        }
    }
    matrix.into_iter().map(|row| row[size..].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballots(pairs: &[(&str, &str, Verdict, usize)]) -> Vec<Ballot> {
        let many = |(first, second, verdict, count): &(&str, &str, Verdict, usize)| {
            vec![Ballot::new(first, second, *verdict); *count]
        };
        pairs.iter().flat_map(many).collect()
    }

    /// With two models the top has one unknown: θ of the first is where 12 − 16 σ(2θ) = θ / 4, which bisection finds without any
    /// of the code above.
    #[test]
    fn two_models_are_where_bisection_finds_them() {
        let found = ratings(&ballots(&[("a", "b", Verdict::First, 12), ("b", "a", Verdict::First, 4)]));
        let slope = |theta: f64| 12.0 - 16.0 / (1.0 + (-2.0 * theta).exp()) - theta / 4.0;
        let (mut low, mut high) = (0.0, 5.0);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if slope(middle) > 0.0 { low = middle } else { high = middle }
        }
        assert_eq!((found[0].model.as_str(), found[0].shown), ("a", 16));
        assert!((found[0].points - POINTS * low).abs() < 1e-6, "{found:?}");
        assert!((found[0].points + found[1].points).abs() < 1e-6, "the prior keeps the mean at 0");
        // The curvature of two is [[c + w, −w], [−w, c + w]], whose inverse has (c + w) / (c² + 2 c w) on its diagonal.
        let chosen = 1.0 / (1.0 + (-2.0 * low).exp());
        let (c, w) = (0.25, 16.0 * chosen * (1.0 - chosen));
        let expected = POINTS * Z * f64::sqrt((c + w) / (c * c + 2.0 * c * w));
        assert!((found[0].plus_minus - expected).abs() < 1e-6, "{found:?} {expected}");
    }

    /// Steepest ascent with small steps, on numbers of ordinary differences of the log posterior.
    #[test]
    fn three_models_are_where_plain_ascent_finds_them() {
        let games = [
            ("a", "b", Verdict::First, 7),
            ("b", "c", Verdict::First, 5),
            ("a", "c", Verdict::Tie, 3),
            ("c", "a", Verdict::First, 1),
        ];
        let posterior = |theta: &[f64; 3]| -> f64 {
            let at = |name: &str| theta[usize::from(name.as_bytes()[0] - b'a')];
            let game = |(first, second, verdict, count): &(&str, &str, Verdict, usize)| {
                let win = 1.0 / (1.0 + (at(second) - at(first)).exp());
                let share = verdict.share_of_first();
                *count as f64 * (share * win.ln() + (1.0 - share) * (1.0 - win).ln())
            };
            games.iter().map(game).sum::<f64>() - theta.iter().map(|value| value * value / 8.0).sum::<f64>()
        };
        let mut theta = [0.0; 3];
        for _ in 0..20_000 {
            let mut next = theta;
            for at in 0..3 {
                let (mut up, mut down) = (theta, theta);
                up[at] += 1e-5;
                down[at] -= 1e-5;
                next[at] += 0.02 * (posterior(&up) - posterior(&down)) / 2e-5;
            }
            theta = next;
        }
        for rating in ratings(&ballots(&games)) {
            let expected = POINTS * theta[usize::from(rating.model.as_bytes()[0] - b'a')];
            assert!((rating.points - expected).abs() < 0.01, "{rating:?} {expected}");
        }
    }

    #[test]
    fn who_always_wins_stays_finite_and_nobody_is_rated_without_choices() {
        let found = ratings(&ballots(&[("a", "b", Verdict::Second, 500)]));
        assert_eq!(found[0].model, "b");
        assert!(
            found[0].points.is_finite() && found[0].points > 300.0 && found[0].plus_minus > 50.0,
            "{found:?}"
        );
        assert!(ratings(&[]).is_empty());
    }

    #[test]
    fn a_pair_is_counted_whichever_stood_first() {
        let all = ballots(&[
            ("a", "b", Verdict::First, 3),
            ("b", "a", Verdict::Second, 2),
            ("b", "a", Verdict::First, 1),
            ("a", "b", Verdict::Tie, 4),
            ("a", "c", Verdict::First, 9),
        ]);
        let found = pair_record(&all, "a", "b");
        assert_eq!((found.wins, found.losses, found.ties), (5, 1, 4));
        assert_eq!(found.interval, wilson(5.0, 6.0));
    }
}
