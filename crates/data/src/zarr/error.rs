//! What is wrong with zarr data.

/// What is wrong with zarr data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZarrError {
    /// A file of the store cannot be read.
    #[error("`{key}` cannot be read: {what}")]
    Unreadable {
        /// Its path in the store.
        key: String,
        /// What was said.
        what: String,
    },
    /// The description of an array is damaged, or of something else.
    #[error("`{key}`: {what}")]
    Description {
        /// Its path in the store.
        key: String,
        /// What is wrong.
        what: String,
    },
    /// A codec, filter or type that is not read here.
    #[error("`{key}` is stored with {found}, which is not read here")]
    Unsupported {
        /// The array.
        key: String,
        /// What it is stored with.
        found: String,
    },
    /// A chunk whose bytes are not those that were written.
    #[error("the chunk `{key}` is damaged: {what}")]
    Chunk {
        /// Its path in the store.
        key: String,
        /// What is wrong.
        what: String,
    },
    /// An array claims more than there can be.
    #[error("`{key}` claims {claimed} bytes, and its chunks have {stored}: they can hold {most}")]
    TooLarge {
        /// The array or chunk.
        key: String,
        /// How many bytes that would be.
        claimed: u64,
        /// How many bytes its chunks have.
        stored: u64,
        /// What they can hold at most.
        most: u64,
    },
    /// The arrays of a replay buffer do not fit together.
    #[error("{what}")]
    Rows {
        /// Which, and how.
        what: String,
    },
}

impl ZarrError {
    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::Chunk { .. } | Self::TooLarge { .. } => {
                "copy or download the data again"
            }
            Self::Description { .. } | Self::Rows { .. } => "is it what another program wrote?",
            Self::Unsupported { .. } => {
                "write the array again with zarr's default codecs, or with Blosc, zstd or zlib"
            }
        }
    }
}
