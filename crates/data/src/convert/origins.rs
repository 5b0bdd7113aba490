//! Where the images of a `.pt` are from: which episode, and which entry of it. RLinf's reader does not look there.

use plaudit_pyfiles::PyValue;

/// The key in the file.
const KEY: &str = "origins";

/// For each image its episode and its entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    /// Names of episodes.
    pub(crate) episodes: Vec<String>,
    /// For each image the number of its episode, and its entry there.
    pub(crate) of: Vec<(usize, usize)>,
}

impl Origins {
    /// As it is written: `{"episodes": names, "episode": numbers, "frame": numbers}`.
    pub(crate) fn entry(&self) -> (&'static str, PyValue) {
        let numbers = |of: fn(&(usize, usize)) -> usize| {
            PyValue::list(self.of.iter().map(|origin| PyValue::Int(of(origin) as i64)))
        };
        let names = PyValue::list(self.episodes.iter().map(|name| PyValue::from(name.as_str())));
        let value = PyValue::dict([
            ("episodes", names),
            ("episode", numbers(|origin| origin.0)),
            ("frame", numbers(|origin| origin.1)),
        ]);
        (KEY, value)
    }

    /// From a file, if it says so and makes sense.
    pub(crate) fn read(file: &PyValue) -> Option<Self> {
        let value = file.get(KEY)?;
        let names = value.get("episodes")?.as_items()?.iter();
        let episodes: Vec<String> =
            names.map(|name| name.as_str().map(String::from)).collect::<Option<_>>()?;
        let numbers = |key: &str| -> Option<Vec<usize>> {
            let items = value.get(key)?.as_items()?.iter();
            items.map(|number| usize::try_from(number.to_i64()?).ok()).collect()
        };
        let (episode, frame) = (numbers("episode")?, numbers("frame")?);
        let sound = episode.len() == frame.len() && episode.iter().all(|at| *at < episodes.len());
        sound.then(|| Self { episodes, of: episode.into_iter().zip(frame).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nonsense_is_not() {
        let origins = Origins { episodes: vec!["a".into(), "b".into()], of: vec![(1, 7), (0, 3)] };
        assert_eq!(Origins::read(&PyValue::dict([origins.entry()])), Some(origins.clone()));
        let beyond = Origins { of: vec![(2, 0)], ..origins };
        assert_eq!(Origins::read(&PyValue::dict([beyond.entry()])), None);
        assert_eq!(Origins::read(&PyValue::dict([("labels", PyValue::None)])), None);
    }
}
