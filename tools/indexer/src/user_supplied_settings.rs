//! What users give a server to make it work at all.

/// Last words of names for what a user gives to make a server work at all: not switches.
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

/// Whether a name is of something that a user gives: credentials, addresses, places.
pub fn is_user_supplied(name: &str) -> bool {
    let last = name.trim_end_matches('_').rsplit('_').next().unwrap_or(name);
    USER_SUPPLIED_SUFFIXES.iter().any(|word| last.eq_ignore_ascii_case(word))
}
