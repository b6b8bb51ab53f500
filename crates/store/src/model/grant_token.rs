//! Grant tokens: recognizable, verifiable without a lookup, and stored only as a hash.

use std::fmt;
use std::sync::LazyLock;

use data_encoding::{Encoding, HEXLOWER, Specification};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Prefix of all tokens, by which secret scanners can find leaked ones.
const PREFIX: &str = "glt_";
/// Number of random bytes in a token. A 32-bit checksum follows them, and each character encodes five bits.
const SECRET_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;

/// A grant's secret token. It is shown once; only [`GrantToken::reveal`] returns it.
///
/// ```
/// use gatelodge_store::GrantToken;
///
/// let token = GrantToken::random()?;
/// assert!(token.reveal().starts_with(GrantToken::PREFIX));
/// assert_eq!(GrantToken::parse(token.reveal())?.hash(), token.hash());
/// assert!(GrantToken::parse("glt_0").is_err());
/// # Ok::<(), gatelodge_store::GrantTokenError>(())
/// ```
#[derive(Clone)]
pub struct GrantToken(String);

/// The hash under which a token is stored.
#[expect(clippy::derived_hash_with_manual_eq, reason = "equality is the same, only in constant time")]
#[derive(Clone, Copy, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

/// An error from parsing a token or a token hash, or from creating a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantTokenError {
    /// The string does not have the format of a token.
    #[error("a token starts with `{PREFIX}`, followed by 58 characters")]
    Form,
    /// The checksum does not match: a character is missing or different.
    #[error("the checksum of the token is wrong: a character is missing or changed")]
    Checksum,
    /// The string is not a token hash.
    #[error("the hash of a token has 64 hexadecimal digits")]
    Hash,
    /// The operating system returned no random bytes.
    #[error("the operating system returned no random bytes")]
    NoRandomness,
}

/// An alphabet without letters and digits that are easily confused with each other.
static ALPHABET: LazyLock<Option<Encoding>> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("0123456789abcdefghjkmnpqrstvwxyz");
    specification.encoding().ok()
});

fn alphabet() -> Result<&'static Encoding, GrantTokenError> {
    ALPHABET.as_ref().ok_or(GrantTokenError::Form)
}

impl GrantToken {
    /// Prefix of all tokens, by which they can be recognized anywhere.
    pub const PREFIX: &str = PREFIX;

    /// Creates a token from 256 random bits.
    ///
    /// # Errors
    /// The operating system returned no random bytes.
    pub fn random() -> Result<Self, GrantTokenError> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| GrantTokenError::NoRandomness)?;
        Self::from_secret(bytes)
    }

    fn from_secret(secret: [u8; SECRET_BYTES]) -> Result<Self, GrantTokenError> {
        let mut bytes = secret.to_vec();
        bytes.extend(checksum(&secret));
        Ok(Self(format!("{PREFIX}{}", alphabet()?.encode(&bytes))))
    }

    /// Parses a token and verifies its checksum.
    ///
    /// # Errors
    /// The format or the checksum is wrong. The store is not consulted.
    pub fn parse(text: &str) -> Result<Self, GrantTokenError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(GrantTokenError::Form)?;
        let bytes = alphabet()?.decode(encoded.as_bytes()).map_err(|_| GrantTokenError::Form)?;
        if bytes.len() != SECRET_BYTES + CHECKSUM_BYTES {
            return Err(GrantTokenError::Form);
        }
        let (secret, check) = bytes.split_at(SECRET_BYTES);
        if checksum(secret) != check { Err(GrantTokenError::Checksum) } else { Ok(Self(text.to_owned())) }
    }

    /// Returns the hash for storage and lookup.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0.as_bytes()).into())
    }

    /// Returns the token as a string, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// A token with its hash, so that the hash need not be computed again for each request on a connection.
#[derive(Debug)]
pub struct TokenHashPair {
    token: GrantToken,
    hash: TokenHash,
}

impl TokenHashPair {
    /// Parses a token.
    ///
    /// # Errors
    /// See [`GrantToken::parse`].
    pub fn parse(text: &str) -> Result<Self, GrantTokenError> {
        let token = GrantToken::parse(text)?;
        Ok(Self { hash: token.hash(), token })
    }

    /// Returns whether `text` equals this token, comparing in constant time.
    // Otherwise a client that shares a connection could learn the token of another one from the timing.
    pub fn matches(&self, text: &str) -> bool {
        self.token.0.as_bytes().ct_eq(text.as_bytes()).into()
    }

    /// Returns the token's hash.
    pub fn hash(&self) -> TokenHash {
        self.hash
    }
}

fn checksum(secret: &[u8]) -> [u8; CHECKSUM_BYTES] {
    crc32fast::hash(secret).to_be_bytes()
}

impl fmt::Debug for GrantToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantToken(***)")
    }
}

impl TokenHash {
    /// Parses a hash from 64 hexadecimal digits.
    ///
    /// # Errors
    /// The string is not a token hash.
    pub fn parse(text: &str) -> Result<Self, GrantTokenError> {
        let bytes = HEXLOWER.decode(text.to_ascii_lowercase().as_bytes()).map_err(|_| GrantTokenError::Hash)?;
        bytes.try_into().map(Self).map_err(|_| GrantTokenError::Hash)
    }
}

// A lookup in a map ends in this comparison; its timing must not reveal how many bytes match.
impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({self})")
    }
}

impl TryFrom<String> for TokenHash {
    type Error = GrantTokenError;

    fn try_from(text: String) -> Result<Self, GrantTokenError> {
        Self::parse(&text)
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hash.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_recognized_and_a_changed_character_is_detected() {
        let token = GrantToken::random().expect("randomness");
        let text = token.reveal();
        assert!(text.starts_with(PREFIX) && text.len() == PREFIX.len() + 58, "{text}");
        assert_eq!(GrantToken::parse(text).expect("a token").hash(), token.hash());
        let last = if text.ends_with('0') { '1' } else { '0' };
        let changed = format!("{}{last}", text.get(..text.len() - 1).expect("ascii"));
        assert!(GrantToken::parse(&changed).is_err());
        let first = if text.as_bytes()[4] == b'0' { "glt_1" } else { "glt_0" };
        assert_eq!(GrantToken::parse(&format!("{first}{}", &text[5..])).err(), Some(GrantTokenError::Checksum));
        assert_eq!(GrantToken::parse("glt_").err(), Some(GrantTokenError::Form));
        assert_eq!(GrantToken::parse("ghp_abc").err(), Some(GrantTokenError::Form));
    }

    #[test]
    fn a_token_is_not_printed() {
        let token = GrantToken::random().expect("randomness");
        assert!(!format!("{token:?}").contains(&token.reveal()[8..]));
        let hash = token.hash();
        assert_eq!(TokenHash::parse(&hash.to_string()), Ok(hash));
        assert_eq!(TokenHash::parse("abc"), Err(GrantTokenError::Hash));
    }
}
