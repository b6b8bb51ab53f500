//! Settings that the user has to supply for a server to work at all.

/// Words at the end of a setting's name that indicate that the user has to supply it. They stand for credentials and
/// locations, not for switches.
const USER_SUPPLIED_SUFFIXES: [&str; 39] = [
    "KEY",
    "KEYS",
    "APIKEY",
    "TOKEN",
    "TOKENS",
    "PAT",
    "SECRET",
    "PASSWORD",
    "PASS",
    "USER",
    "USERNAME",
    "LOGIN",
    "EMAIL",
    "URL",
    "URI",
    "HOST",
    "HOSTNAME",
    "ENDPOINT",
    "DOMAIN",
    "ID",
    "ACCOUNT",
    "ORG",
    "ORGANIZATION",
    "WORKSPACE",
    "TENANT",
    "TEAM",
    "PROJECT",
    "REGION",
    "SITE",
    "SUBDOMAIN",
    "INSTANCE",
    "DSN",
    "CREDENTIALS",
    "COOKIE",
    "PATH",
    "DIR",
    "ROOT",
    "FILE",
    "CLIENT",
];

/// Returns whether the user has to supply a setting, such as a credential, a URL or a path.
pub fn is_user_supplied(name: &str) -> bool {
    let last = name.trim_end_matches('_').rsplit('_').next().unwrap_or(name);
    USER_SUPPLIED_SUFFIXES.iter().any(|word| last.eq_ignore_ascii_case(word))
}
