//! Texts that many rows share, each kept once. On disk a text says how much of the one before it it begins with.

use super::bytes::Reader;
use super::open::OpenIndexError;

/// All texts of a pool together, when it is read: a hostile file cannot ask for more.
const MOST_TEXT: usize = 64 << 20;

/// Texts by number.
#[derive(Debug, Default)]
pub(super) struct Pool {
    text: String,
    ends: Vec<u32>,
}

impl Pool {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// A text; empty for a number that is none, which `open` has made sure there is not.
    pub fn get(&self, number: u32) -> &str {
        let at = number as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default() as usize;
        let end = self.ends.get(at).copied().unwrap_or_default() as usize;
        self.text.get(start..end).unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|number| self.get(number))
    }

    pub fn read(body: &mut Reader<'_>) -> Result<Self, OpenIndexError> {
        let count = body.count(body.len())?;
        let (mut shared, mut lengths, mut bytes) = (body.column()?, body.column()?, body.column()?);
        let mut pool = Self { text: String::new(), ends: Vec::with_capacity(count.min(shared.len())) };
        let mut text: Vec<u8> = Vec::new();
        for _ in 0..count {
            let same = shared.count(text.len())?;
            text.truncate(same);
            let length = lengths.count(bytes.len())?;
            text.extend_from_slice(bytes.take(length)?);
            let own = str::from_utf8(&text).map_err(|_| OpenIndexError::Malformed("a text is not UTF-8"))?;
            if pool.text.len() + own.len() > MOST_TEXT {
                return Err(OpenIndexError::TooLarge);
            }
            pool.push(own);
        }
        [shared, lengths, bytes].into_iter().try_for_each(Reader::end)?;
        Ok(pool)
    }
}
