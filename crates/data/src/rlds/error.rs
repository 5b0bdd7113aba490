//! What is wrong with a dataset of RLDS.

use crate::protobuf::WireError;

/// What is wrong with a dataset of RLDS, or with one of its episodes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RldsError {
    /// A file that describes the dataset is damaged, or of something else.
    #[error("{file}: {what}")]
    Description {
        /// `features.json` or `dataset_info.json`.
        file: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A record is cut short, or its bytes are not those that were written.
    #[error("the record at byte {at} is damaged: {what}")]
    Record {
        /// Where it begins.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A record that is no `tf.train.Example`.
    #[error("the episode is no tf.train.Example: byte {at} is damaged")]
    Example {
        /// Which byte of the record.
        at: usize,
    },
    /// A file has fewer or more episodes than the dataset says.
    #[error("it has {found} episodes, where dataset_info.json says {expected}")]
    Count {
        /// How many it has.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
    /// A feature is not what `features.json` says.
    #[error("`{name}` has {found}, where features.json says {expected}")]
    Feature {
        /// Which.
        name: String,
        /// What it has.
        found: String,
        /// What it should have.
        expected: String,
    },
    /// A feature is stored in a way that is not read here.
    #[error("`{name}` is stored as {found}, which is not read here")]
    Unsupported {
        /// Which.
        name: String,
        /// How it is stored.
        found: String,
    },
}

impl RldsError {
    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Description { .. } | Self::Record { .. } | Self::Example { .. } | Self::Count { .. } => {
                "copy or download the dataset again"
            }
            Self::Feature { .. } => "build the dataset again with TensorFlow Datasets",
            Self::Unsupported { .. } => "build the dataset again with plain tensors and images",
        }
    }
}

impl From<WireError> for RldsError {
    fn from(error: WireError) -> Self {
        Self::Example { at: error.at }
    }
}
