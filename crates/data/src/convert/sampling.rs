//! Choosing evenly spaced entries of an episode.

/// The entries that are kept of `len`, in order. `count` of zero or below keeps all, and so does one that is not
/// below `len`.
///
/// With `keep_last` the last entry always stays and the others are spread over the rest; without, all are spread
/// over the whole. Either way one entry is the last one.
pub(crate) fn sample(len: usize, count: i64, keep_last: bool) -> Vec<usize> {
    let count = match usize::try_from(count) {
        Ok(count) if count > 0 && count < len => count,
        _ => return (0..len).collect(),
    };
    if count == 1 {
        return vec![len - 1];
    }
    let mut kept = if keep_last { before_last(len - 1, count - 1) } else { spread(len, count) };
    if keep_last {
        kept.push(len - 1);
    }
    kept.dedup();
    kept
}

fn before_last(len: usize, count: usize) -> Vec<usize> {
    if count >= len {
        (0..len).collect()
    } else if count == 1 {
        vec![0]
    } else {
        spread(len, count)
    }
}

/// `int(i * (len - 1) / (count - 1))`: Python divides integers as floats and drops the fraction.
fn spread(len: usize, count: usize) -> Vec<usize> {
    (0..count).map(|i| ((i * (len - 1)) as f64 / (count - 1) as f64) as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_of_many() {
        assert_eq!(sample(11, 3, false), [0, 5, 10]);
        assert_eq!(sample(11, 3, true), [0, 9, 10]);
        assert_eq!(sample(11, 4, true), [0, 4, 9, 10]);
        assert_eq!(sample(11, 2, true), [0, 10]);
        assert_eq!(sample(11, 1, true), [10]);
        assert_eq!(sample(11, 1, false), [10]);
    }

    #[test]
    fn all_of_few() {
        for count in [0, -3, 4, 99] {
            assert_eq!(sample(4, count, true), [0, 1, 2, 3]);
        }
        assert!(sample(0, 5, true).is_empty());
    }

    proptest! {
        #[test]
        fn kept_entries_rise_and_end_with_the_last(len in 1usize..200, count in -2i64..250, keep_last: bool) {
            let kept = sample(len, count, keep_last);
            prop_assert!(kept.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(kept.last(), Some(&(len - 1)));
            let most = if count > 0 { (count as usize).min(len) } else { len };
            prop_assert!(kept.len() <= most);
        }
    }
}
