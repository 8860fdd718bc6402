//! The frame of the file: a header, then sections that each stand for themselves.

use crate::bytes::Malformed;

/// The first bytes of every profile.
pub(crate) const MAGIC: [u8; 7] = *b"CONVOY\0";
/// The version of the format that this code writes, and the newest one that it reads.
pub const FORMAT_VERSION: u8 = 1;
/// Magic and version.
pub(crate) const FILE_HEADER_BYTES: usize = 8;
/// Tag, process, raw length, compressed length, CRC of the payload, CRC of the header.
pub(crate) const HEADER_BYTES: usize = 24;
/// What a section may hold uncompressed. Writers stay far below.
pub(crate) const SECTION_BYTES: usize = 64 << 20;

/// Uncompressed length, and that of all its rows in memory, which a file may reach.
pub(crate) const FILE_BYTES: usize = 1 << 30;

/// Fast, and within a tenth of the best it can do on columns.
const ZSTD_LEVEL: i32 = 3;

/// What kind of section.
pub(crate) type Tag = [u8; 4];

/// A section's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) tag: Tag,
    pub(crate) process: u32,
    raw_bytes: u32,
    compressed_bytes: u32,
    payload_crc: u32,
}

/// Why the payload of a section cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadPayload {
    #[error("the file ends inside it")]
    Cut,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it claims {0} bytes uncompressed, more than is allowed")]
    TooLarge(u64),
    #[error("it cannot be decompressed")]
    Compression,
    #[error("{0}")]
    Malformed(#[from] Malformed),
}

impl Header {
    /// The header at the start of these bytes; `None` if there is none or it is damaged.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        let word = |at: usize| header[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        if word(20)? != crc32fast::hash(&header[..20]) {
            return None;
        }
        Some(Self {
            tag: header[..4].try_into().ok()?,
            process: word(4)?,
            raw_bytes: word(8)?,
            compressed_bytes: word(12)?,
            payload_crc: word(16)?,
        })
    }

    /// Where the next section begins, from the start of this one.
    pub(crate) fn end(&self) -> usize {
        HEADER_BYTES + self.compressed_bytes as usize
    }

    /// Bytes of the payload when uncompressed, as claimed.
    pub(crate) fn raw_bytes(&self) -> usize {
        self.raw_bytes as usize
    }

    /// Checks and decompresses the payload of the section that begins at the start of `bytes`.
    pub(crate) fn payload(&self, bytes: &[u8]) -> Result<Vec<u8>, BadPayload> {
        let compressed = bytes.get(HEADER_BYTES..self.end()).ok_or(BadPayload::Cut)?;
        if crc32fast::hash(compressed) != self.payload_crc {
            return Err(BadPayload::Checksum);
        }
        if self.raw_bytes() > SECTION_BYTES {
            return Err(BadPayload::TooLarge(u64::from(self.raw_bytes)));
        }
        // The capacity is a limit: more output is an error, not a larger buffer.
        let raw = zstd::bulk::decompress(compressed, self.raw_bytes())
            .map_err(|_| BadPayload::Compression)?;
        if raw.len() == self.raw_bytes() {
            Ok(raw)
        } else {
            Err(BadPayload::Compression)
        }
    }
}

/// A section as bytes. `Err` gives the length of a payload that is too large.
pub(crate) fn encode(tag: Tag, process: u32, payload: &[u8]) -> std::io::Result<Vec<u8>> {
    let too_large = || {
        let tag = String::from_utf8_lossy(&tag);
        std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            format!(
                "section {tag} has {} bytes, at most {SECTION_BYTES} can be written",
                payload.len()
            ),
        )
    };
    if payload.len() > SECTION_BYTES {
        return Err(too_large());
    }
    let compressed = zstd::bulk::compress(payload, ZSTD_LEVEL)?;
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| too_large());
    let mut section = Vec::with_capacity(HEADER_BYTES + compressed.len());
    section.extend_from_slice(&tag);
    section.extend_from_slice(&process.to_le_bytes());
    section.extend_from_slice(&length(payload)?.to_le_bytes());
    section.extend_from_slice(&length(&compressed)?.to_le_bytes());
    section.extend_from_slice(&crc32fast::hash(&compressed).to_le_bytes());
    section.extend_from_slice(&crc32fast::hash(&section).to_le_bytes());
    section.extend_from_slice(&compressed);
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read_as_written() {
        let section = encode(*b"TEST", 3, b"payload").unwrap();
        let header = Header::read(&section).unwrap();
        assert_eq!(
            (header.tag, header.process, header.end()),
            (*b"TEST", 3, section.len())
        );
        assert_eq!(header.payload(&section), Ok(b"payload".to_vec()));
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_unpacked() {
        let bomb = vec![0; SECTION_BYTES + 1];
        assert!(encode(*b"TEST", 0, &bomb).is_err());

        // Claims more than it may.
        let mut section = encode(*b"TEST", 0, &bomb[..1000]).unwrap();
        section[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        let crc = crc32fast::hash(&section[..20]);
        section[20..24].copy_from_slice(&crc.to_le_bytes());
        let header = Header::read(&section).unwrap();
        assert_eq!(
            header.payload(&section),
            Err(BadPayload::TooLarge(u64::from(u32::MAX)))
        );

        // Holds more than it claims.
        section[8..12].copy_from_slice(&10u32.to_le_bytes());
        let crc = crc32fast::hash(&section[..20]);
        section[20..24].copy_from_slice(&crc.to_le_bytes());
        let header = Header::read(&section).unwrap();
        assert_eq!(header.payload(&section), Err(BadPayload::Compression));
    }
}
