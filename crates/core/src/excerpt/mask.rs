//! Digests that stand for values: equal values have equal ones, and without the salt nobody can try out what they are of.

use std::fmt;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::Secret;

/// The salt of digests. `Debug` hides it.
#[derive(Clone)]
pub struct MaskKey(Hmac<Sha256>);

impl MaskKey {
    /// Salts are so many bytes at least: a shorter one could be guessed together with the values.
    pub const LEAST_BYTES: usize = 16;

    /// None where the salt is too short.
    pub fn new(salt: &Secret) -> Option<Self> {
        let salt = salt.expose().as_bytes();
        // A key of any length is one of HMAC.
        (salt.len() >= Self::LEAST_BYTES).then(|| Hmac::new_from_slice(salt).ok().map(Self)).flatten()
    }

    /// Tells one salt from another without saying what it is.
    pub fn fingerprint(&self) -> String {
        hex(self.mac(b"calve: the fingerprint of a salt").get(..8).unwrap_or_default())
    }

    /// HMAC-SHA256 of the text, as 64 hexadecimal digits.
    pub fn digest(&self, text: &str) -> String {
        hex(&self.mac(text.as_bytes()))
    }

    /// The digest of each text; NULL stays NULL.
    pub(super) fn digests(&self, texts: &ArrayRef) -> ArrayRef {
        let texts = texts.as_string::<i32>();
        let mut digests = StringBuilder::with_capacity(texts.len(), texts.len() * 64);
        for text in texts {
            digests.append_option(text.map(|text| self.digest(text)));
        }
        Arc::new(digests.finish())
    }

    fn mac(&self, bytes: &[u8]) -> Vec<u8> {
        let mut mac = self.0.clone();
        mac.update(bytes);
        mac.finalize().into_bytes().to_vec()
    }
}

impl PartialEq for MaskKey {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint()
    }
}

impl Eq for MaskKey {}

impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 7 has a key of 131 bytes, case 1 one of 20.
    #[test]
    fn digests_are_those_of_the_rfc() {
        let key = MaskKey::new(&Secret::new("\u{b}".repeat(20))).unwrap();
        assert_eq!(key.digest("Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        assert!(MaskKey::new(&Secret::new("fifteen bytes..")).is_none());
        let other = MaskKey::new(&Secret::new("sixteen bytes...")).unwrap();
        assert_ne!(key.fingerprint(), other.fingerprint());
        assert_eq!((key.fingerprint().len(), format!("{key:?}").as_str()), (16, "***"));
    }
}
