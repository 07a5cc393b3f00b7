//! What the digests of masked columns must be, computed by the source itself: HMAC-SHA256 from the two hashes that it is made of
//! (RFC 2104).

/// An expression of SQL whose value is the digest of the text `of`, under a salt of 64 bytes at most.
pub fn digest(of: &str, salt: &str, postgres: bool) -> String {
    let pad = |with: u8| -> String {
        let bytes = salt.bytes().chain(std::iter::repeat(0)).take(64);
        bytes.fold(String::new(), |digits, byte| format!("{digits}{:02x}", byte ^ with))
    };
    let (inner, outer) = (pad(0x36), pad(0x5c));
    if postgres {
        format!("encode(sha256('\\x{outer}'::bytea || sha256('\\x{inner}'::bytea || convert_to({of}, 'UTF8'))), 'hex')")
    } else {
        format!("sha2(concat(unhex('{outer}'), unhex(sha2(concat(unhex('{inner}'), {of}), 256))), 256)")
    }
}
