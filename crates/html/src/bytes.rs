//! Data as text that a script element can hold: compressed, then in letters.

use std::io::Write;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use flate2::write::ZlibEncoder;
use flate2::Compression;

/// Compressed and in letters. What a browser reads with `DecompressionStream("deflate")`.
pub(crate) fn packed(bytes: &[u8]) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let compressed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    STANDARD.encode(compressed.unwrap_or_default())
}

/// Appends a number, seven bits to a byte, lowest first.
pub(crate) fn number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends nothing as 0 and anything else one higher.
pub(crate) fn option(bytes: &mut Vec<u8>, value: Option<u32>) {
    number(bytes, value.map_or(0, |value| u64::from(value) + 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again() {
        let bytes = b"a lock, a lock, a lock".to_vec();
        let compressed = STANDARD.decode(packed(&bytes)).unwrap();
        let mut decoder = flate2::read::ZlibDecoder::new(&compressed[..]);
        let mut out = Vec::new();
        std::io::Read::read_to_end(&mut decoder, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn numbers_are_short() {
        let mut bytes = Vec::new();
        number(&mut bytes, 300);
        option(&mut bytes, None);
        option(&mut bytes, Some(6));
        assert_eq!(bytes, [0xac, 2, 0, 7]);
    }
}
