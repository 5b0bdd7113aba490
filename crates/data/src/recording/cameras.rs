//! How cameras are called: by RLinf's keys, which say "the main one" and "the others", or by their own names.

/// The camera that is there wherever there is one.
pub(crate) const MAIN: &str = "main_images";

/// A camera that is asked for: a key, and which of several images under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CameraKey {
    /// As it was written.
    pub(crate) written: String,
    /// The key of an observation.
    pub(crate) key: String,
    /// Which image under that key.
    pub(crate) view: usize,
}

impl CameraKey {
    /// `extra_view_images[1]` is the second image under `extra_view_images`.
    pub(crate) fn parse(text: &str) -> Self {
        let inside = text.strip_suffix(']').and_then(|text| text.rsplit_once('['));
        let split = inside.and_then(|(key, view)| Some((key, view.parse().ok()?)));
        let (key, view) = split.unwrap_or((text, 0));
        Self { written: text.into(), key: key.into(), view }
    }

    /// Which of an environment's cameras it is: one of that name, or its role in RLinf's observations.
    pub(crate) fn among<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<usize> {
        let names: Vec<&str> = names.collect();
        let on_the_hand = |name: &str| name.contains("hand") || name.contains("wrist");
        let position = |name: &dyn Fn(&str) -> bool| names.iter().position(|found| name(found));
        // RLinf stacks every camera but the first there, one on the hand too.
        let extra = || (1..names.len()).nth(self.view);
        position(&|name| name == self.written).or_else(|| match self.key.as_str() {
            MAIN => (!names.is_empty()).then_some(0),
            "wrist_images" => position(&on_the_hand),
            "extra_view_images" => extra(),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_or_roles() {
        let names = ["base_camera", "hand_camera", "left", "right[2]"];
        let cases = [
            ("main_images", Some(0)),
            ("wrist_images", Some(1)),
            ("extra_view_images", Some(1)),
            ("extra_view_images[1]", Some(2)),
            ("extra_view_images[2]", Some(3)),
            ("extra_view_images[3]", None),
            ("hand_camera", Some(1)),
            ("right[2]", Some(3)),
            ("wrist", None),
        ];
        for (key, position) in cases {
            assert_eq!(CameraKey::parse(key).among(names.into_iter()), position, "{key}");
        }
    }
}
