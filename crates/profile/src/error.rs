//! Why a file is no profile.

/// Nothing could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No bytes at all.
    #[error("the file is empty: nothing was recorded in it. Record again; was the disk full?")]
    Empty,
    /// Something else.
    #[error(
        "not a Convoy profile: it begins with {found}, a profile with \"CONVOY\\0\". \
         Give a file that `convoy record -o FILE` wrote"
    )]
    Foreign {
        /// Its first bytes, for people.
        found: String,
    },
    /// Written by a newer Convoy.
    #[error(
        "the profile has format version {found}, this convoy reads up to {supported}: it cannot be \
         understood. Use the convoy that recorded it, or a newer one"
    )]
    NewerVersion {
        /// Its format version.
        found: u8,
        /// The newest one that this code reads.
        supported: u8,
    },
    /// A profile's first bytes, and then nothing whole.
    #[error(
        "a Convoy profile of {bytes} bytes without one intact section: nothing of it can be used. \
         Record again; was the disk full or the copy cut short?"
    )]
    NothingIntact {
        /// Length of the file.
        bytes: u64,
    },
}
