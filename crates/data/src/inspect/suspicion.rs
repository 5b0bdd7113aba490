//! What makes a dataset suspicious, in words, and what to do about it.

use serde::Serialize;

use super::finding::Severity;

/// Something that is probably not as it was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Suspicion {
    /// No success, or nothing but success.
    OneClass,
    /// Equal images with different labels.
    ContradictingLabels,
    /// The training and the validation split share images.
    SharedBetweenSplits,
    /// The name, the folder or the manifest says otherwise than the file.
    OutcomeDisagrees,
    /// Lists that belong together have different lengths.
    UnevenLists,
    /// States, actions or rewards that are not numbers.
    NotFinite,
    /// Nothing says whether it was a success.
    NoSuccessFlags,
    /// The reset is a success, and nothing after it is.
    SuccessOnlyAtReset,
    /// Labels that change from frame to frame.
    FlippingLabels,
    /// Successes that are solved at some step and not at the last.
    SuccessLost,
    /// Images that are none: of no known shape, or with numbers that are no brightness.
    OddImages,
    /// A camera with fewer images than another.
    MissingImages,
    /// No image anywhere.
    NoImages,
    /// Images of several sizes.
    MixedSizes,
    /// States or actions of several widths.
    MixedWidths,
    /// Images that are black.
    BlackFrames,
    /// A camera that shows the same image all the time.
    FrozenCamera,
    /// The same action at every step.
    ConstantActions,
    /// Every reward is zero.
    NoReward,
    /// A success without any reward.
    UnrewardedSuccess,
    /// Nothing, or next to nothing, was done.
    TooShort,
    /// Episodes that are there more than once.
    Duplicates,
    /// Episodes that look alike.
    NearDuplicates,
    /// One label is much rarer than the others.
    Unbalanced,
    /// Only what its metadata says was read.
    MetadataOnly,
}

impl Suspicion {
    /// How bad it is.
    pub fn severity(self) -> Severity {
        match self {
            Self::OneClass
            | Self::ContradictingLabels
            | Self::SharedBetweenSplits
            | Self::OutcomeDisagrees
            | Self::UnevenLists
            | Self::NotFinite
            | Self::NoSuccessFlags
            | Self::SuccessOnlyAtReset
            | Self::FlippingLabels => Severity::Wrong,
            Self::MetadataOnly
            | Self::Unbalanced
            | Self::NearDuplicates
            | Self::NoImages
            | Self::NoReward => Severity::Note,
            _ => Severity::Doubtful,
        }
    }

    /// What was seen, to stand after a number of episodes.
    pub fn describe(self) -> &'static str {
        match self {
            Self::OneClass => "all labels are the same",
            Self::ContradictingLabels => "equal images have different labels",
            Self::SharedBetweenSplits => "validation images are also in the training split",
            Self::OutcomeDisagrees => "name or folder and content disagree",
            Self::UnevenLists => "lists that belong together differ in length",
            Self::NotFinite => "states, actions or rewards are NaN or infinite",
            Self::NoSuccessFlags => "nothing says whether it was a success",
            Self::SuccessOnlyAtReset => "success at the reset and never after it",
            Self::FlippingLabels => "labels flip from frame to frame",
            Self::SuccessLost => "successes that are not solved at the end",
            Self::OddImages => "images that cannot be shown",
            Self::MissingImages => "a camera misses frames",
            Self::NoImages => "no images",
            Self::MixedSizes => "images of different sizes",
            Self::MixedWidths => "states or actions of different widths",
            Self::BlackFrames => "black images",
            Self::FrozenCamera => "a camera shows one image all the time",
            Self::ConstantActions => "the same action at every step",
            Self::NoReward => "every reward is zero",
            Self::UnrewardedSuccess => "a success without any reward",
            Self::TooShort => "fewer than two steps",
            Self::Duplicates => "stored more than once",
            Self::NearDuplicates => "looks like another one from start to end",
            Self::Unbalanced => "one label is rare",
            Self::MetadataOnly => {
                "only the metadata was read, and that its files are there; no frame was inspected"
            }
        }
    }

    /// What to do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::OneClass => "a reward cannot be learned from one outcome: collect the other one too",
            Self::ContradictingLabels => "look at these images; label them again, or drop the later copies",
            Self::SharedBetweenSplits => {
                "split by episode, not by image, and remove the copies: validation is too good now"
            }
            Self::OutcomeDisagrees => {
                "trust neither before you have looked: were files moved by hand, or renamed?"
            }
            Self::UnevenLists => "labels may belong to other images: collect again, or cut the longer list",
            Self::NotFinite => {
                "find the step where it begins: a simulation that blew up, or a sensor that was off; drop the episode"
            }
            Self::NoSuccessFlags => {
                "have the environment report `success` in its infos, or label by keyboard"
            }
            Self::SuccessOnlyAtReset => {
                "the flag is left over from the episode before: read it after the step, not after the automatic reset"
            }
            Self::FlippingLabels => "the success test is at its threshold: add hysteresis, or label by hand",
            Self::SuccessLost => {
                "decide which success is meant: end episodes at success, or label by the end; a reward model learns from \
                 both as they are"
            }
            Self::OddImages => "save uint8 of [height, width, channels], or floats from 0 to 1",
            Self::MissingImages => {
                "frames of the two cameras no longer belong together by number: collect again"
            }
            Self::NoImages => "an image reward needs cameras: collect with obs_mode rgb",
            Self::MixedSizes => "convert them apart, or resize to one size first",
            Self::MixedWidths => "keep recordings of different robots or observation modes apart",
            Self::BlackFrames => "is the camera rendered at every step, and plugged in? drop these frames",
            Self::FrozenCamera => "the camera hangs, or renders only at resets; collect again",
            Self::ConstantActions => "was the policy or the teleoperation connected?",
            Self::NoReward => "fine for labels by success; a dense reward would show progress",
            Self::UnrewardedSuccess => "reward and success come from different rules: check reward_mode",
            Self::TooShort => "episodes that end at once often come from a failed reset; drop them",
            Self::Duplicates => "keep one of each; a store does that by itself",
            Self::NearDuplicates => "vary the starts (seeds, fixed reset states): copies teach little",
            Self::MetadataOnly => {
                "every frame is inspected once its videos are whole and something decodes them"
            }
            Self::Unbalanced => {
                "collect more of the rare one, or keep fewer of the other when converting: so many failures per success"
            }
        }
    }
}
