//! Searches a string for bytes that need special handling, eight bytes at a time. Most strings are short and contain
//! none.

const LOW_BITS: u64 = u64::from_le_bytes([1; 8]);
const HIGH_BITS: u64 = u64::from_le_bytes([0x80; 8]);

/// Returns a mask in which the top bit is set for each byte that is a quote, a backslash or a control character. Only
/// the first set bit is reliable.
fn mark_special_bytes(eight: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(eight);
    // Subtracting one from a zero byte borrows into its top bit, which marks it.
    let zero = |word: u64| word.wrapping_sub(LOW_BITS) & !word;
    let control = word.wrapping_sub(LOW_BITS * 0x20) & !word;
    (zero(word ^ (LOW_BITS * 0x22)) | zero(word ^ (LOW_BITS * 0x5c)) | control) & HIGH_BITS
}

/// Returns the offset of the first quote, backslash or control character.
#[inline]
pub(crate) fn find_special_byte(bytes: &[u8]) -> Option<usize> {
    let (eights, rest) = bytes.as_chunks::<8>();
    for (at, eight) in eights.iter().enumerate() {
        let marks = mark_special_bytes(*eight);
        if marks != 0 {
            return Some(at * 8 + marks.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&byte| is_special(byte)).map(|at| bytes.len() - rest.len() + at)
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | ..b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found_at_any_offset() {
        for length in 0..40 {
            for byte in 0..=u8::MAX {
                for at in 0..length {
                    let mut bytes = vec![b'x'; length];
                    bytes[at] = byte;
                    let expected = is_special(byte).then_some(at);
                    assert_eq!(find_special_byte(&bytes), expected, "{byte} at {at} of {length}");
                    // Equal bytes after it do not hide it.
                    bytes[at..].fill(byte);
                    assert_eq!(find_special_byte(&bytes), expected, "{byte} from {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn neighbors_of_a_special_byte_are_not_mistaken_for_it() {
        for (first, second) in (0..=u8::MAX).flat_map(|first| (0..=u8::MAX).map(move |second| (first, second))) {
            let bytes = [b'a', first, second, b'z', first, second, second, b'!'];
            assert_eq!(find_special_byte(&bytes), bytes.iter().position(|&byte| is_special(byte)), "{first} {second}");
        }
    }
}
