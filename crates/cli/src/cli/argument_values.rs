//! Parses numbers and addresses in arguments, with errors that say what to write.

use std::net::SocketAddr;

/// A larger maximum is not part of the error: it is never reached.
const MAX_SHOWN: u64 = 1_000_000;

/// Parses a whole number between two bounds.
pub fn whole_number<T: TryFrom<u64>, const MIN: u64, const MAX: u64>(text: &str) -> Result<T, String> {
    let number = text.parse::<u64>().ok().filter(|number| (MIN..=MAX).contains(number));
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match (MIN, MAX) {
        (_, 0..=MAX_SHOWN) => format!("write a whole number from {MIN} to {MAX}"),
        (0, _) => "write a whole number".to_owned(),
        _ => format!("write a whole number of at least {MIN}"),
    })
}

/// Parses a whole number without bounds.
pub fn any_whole_number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    whole_number::<T, 0, { u64::MAX }>(text)
}

/// Parses an address with a port.
pub fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "write an address with a port, such as `127.0.0.1:7420`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_write() {
        assert_eq!(whole_number::<u32, 1, 10_000>("7"), Ok(7));
        let error = |text| whole_number::<u32, 1, 10_000>(text).expect_err("an error");
        assert_eq!(error("0"), "write a whole number from 1 to 10000");
        assert_eq!(error("x"), "write a whole number from 1 to 10000");
        assert_eq!(any_whole_number::<u32>("4294967296"), Err("write a whole number".to_owned()));
        assert!(socket_address("localhost").is_err_and(|error| error.contains("127.0.0.1:7420")));
    }
}
