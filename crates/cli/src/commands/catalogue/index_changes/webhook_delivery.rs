//! Posts signed change events to a webhook with at-least-once delivery: the cursor for a webhook is saved only after
//! the receiver has acknowledged the events.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use data_encoding::{BASE64, HEXLOWER};
use gatelodge_admin::server_url;
use gatelodge_server::{input_file, process_environment};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::index_change_feed::IndexChangePage;
use crate::cli::IndexChangesArgs;
use crate::diagnostic_report::{count_noun, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError, UnreachableError, UsageError};
use crate::{file_output, mcp_client, stdout_output, store_command_context};

/// Name of the file next to the change feed that stores the delivery cursors.
const CURSORS_FILE_NAME: &str = "catalogue-posted.json";
/// Maximum number of events in one request.
const EVENTS_PER_REQUEST: usize = 100;
/// Minimum length of a signing secret; a shorter one could be guessed.
const MIN_SECRET_BYTES: usize = 16;
/// Prefix that marks a signing secret as Base64-encoded.
const BASE64_SECRET_PREFIX: &str = "whsec_";

pub fn run(args: &IndexChangesArgs, url: &str, log: &Path) -> Result<CommandExitCode> {
    let shown = server_url::redact_url(url);
    let uri = server_url::parse_server_url(url)
        .map_err(|error| UsageError(format!("`{shown}`: {}; {}", error.message(), error.help())))?;
    if uri.scheme_str() == Some("http") && !server_url::is_loopback(&uri) {
        return Err(UsageError(format!("`{shown}` is not encrypted; use `https://`")).into());
    }
    let secret = load_secret(args)?;
    let mut kept = IndexChangeDeliveryCursors::open(log, url)?;
    let mut cursor = args.since.or(kept.cursor()).unwrap_or_default();
    let mut count = 0;
    loop {
        let page = super::load_page(log, cursor, args, EVENTS_PER_REQUEST)?;
        if page.left_out > 0 {
            print_stderr(&format!(
                "{} are no longer stored and were not posted",
                count_noun(page.left_out as usize, "event")
            ));
        }
        if !page.events.is_empty() {
            store_command_context::block_on(deliver(&uri, &page, &secret, args))
                .map_err(|error| delivery_error(&error, &shown, count, cursor))?;
        }
        count += page.events.len();
        cursor = page.cursor;
        kept.save(cursor)?;
        if !page.has_more {
            break;
        }
    }
    match args.json {
        true => stdout_output::print_json(&json!({"posted": count, "cursor": cursor}))?,
        false => print_stderr(&format!("{} posted; the cursor is {cursor}", count_noun(count, "event"))),
    }
    Ok(CommandExitCode::Success)
}

fn delivery_error(error: &anyhow::Error, shown: &str, count: usize, cursor: u64) -> anyhow::Error {
    let delivered = format!("{} delivered before", count_noun(count, "event"));
    UnreachableError(format!(
        "`{shown}` did not accept the events after cursor {cursor}: {error}; {delivered}, the others are posted next time"
    ))
    .into()
}

/// Reads the signing secret from an environment variable or a file. It cannot be given on the command line, where other
/// processes could see it.
fn load_secret(args: &IndexChangesArgs) -> Result<Vec<u8>> {
    let text = match (&args.secret_env, &args.secret_file) {
        (Some(name), _) => process_environment::find_variable(name)
            .ok_or_else(|| UsageError(format!("the variable `{name}` is not set")))?,
        (None, Some(path)) => {
            let source = input_file::read_source(path)?;
            String::from_utf8(source.text).map_err(|_| UsageError(format!("`{}` is not UTF-8", source.name)))?
        }
        (None, None) => return Err(UsageError("`--post` needs `--secret-env` or `--secret-file`".to_owned()).into()),
    };
    let text = text.trim();
    let secret = match text.strip_prefix(BASE64_SECRET_PREFIX) {
        Some(encoded) => BASE64
            .decode(encoded.as_bytes())
            .map_err(|_| UsageError(format!("the secret is not valid Base64 after `{BASE64_SECRET_PREFIX}`")))?,
        None => text.as_bytes().to_vec(),
    };
    match secret.len() >= MIN_SECRET_BYTES {
        true => Ok(secret),
        false => Err(UsageError(format!("the secret is shorter than {MIN_SECRET_BYTES} bytes")).into()),
    }
}

/// Posts one page of events. After temporary failures, retries up to `--retries` times.
async fn deliver(uri: &Uri, page: &IndexChangePage, secret: &[u8], args: &IndexChangesArgs) -> Result<()> {
    let body = super::page_json(page).to_string();
    let time = Duration::from_secs(args.timeout);
    let mut wait = Duration::from_secs(1);
    for left in (0..=args.retries).rev() {
        // Each attempt is signed with the current time, so that the receiver does not reject a retry as too old.
        let headers = signed_headers(&body, page.cursor, secret, gatelodge_server::system_clock().now().as_second())?;
        let why = match mcp_client::post_for_status(uri.clone(), body.clone(), &headers, time).await {
            Ok(200..=299) => return Ok(()),
            Ok(status @ (408 | 425 | 429 | 500..=599)) => format!("it responded with {status}"),
            Ok(status) => {
                return Err(ExitError(CommandExitCode::Unreachable, format!("it responded with {status}")).into());
            }
            Err(error) => error.to_string(),
        };
        if left == 0 {
            return Err(ExitError(CommandExitCode::Unreachable, why).into());
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
    Ok(())
}

/// Returns the Standard Webhooks headers: id, timestamp and signature. The same events always get the same id.
fn signed_headers(body: &str, cursor: u64, secret: &[u8], second: i64) -> Result<HeaderMap> {
    let id = format!("{cursor}-{}", HEXLOWER.encode(Sha256::digest(body).get(..8).unwrap_or_default()));
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret).map_err(|_| UsageError("the secret cannot be used".to_owned()))?;
    mac.update(format!("{id}.{second}.{body}").as_bytes());
    let signature = format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()));
    let all = [("webhook-id", id), ("webhook-timestamp", second.to_string()), ("webhook-signature", signature)];
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_str(&value)?);
    }
    Ok(headers)
}

/// Delivery cursors of all webhooks, by URL hash. Holds a lock that keeps other processes from using the cursor file.
struct IndexChangeDeliveryCursors {
    path: PathBuf,
    /// Hash of the webhook's URL. The URL itself is not stored because it may contain a secret.
    endpoint_hash: String,
    cursors: BTreeMap<String, u64>,
    _lock: File,
}

impl IndexChangeDeliveryCursors {
    fn open(log: &Path, url: &str) -> Result<Self> {
        let path = log.with_file_name(CURSORS_FILE_NAME);
        let lock = path.with_extension("lock");
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        }
        let held = File::create(&lock).and_then(|file| file.lock().map(|()| file));
        let held = held.with_context(|| format!("cannot lock `{}`", lock.display()))?;
        let all = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|_| {
                ExitError(
                    CommandExitCode::InternalError,
                    format!("`{}` is corrupt; if you remove it, all events are posted again", path.display()),
                )
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        };
        Ok(Self { path, endpoint_hash: HEXLOWER.encode(&Sha256::digest(url)), cursors: all, _lock: held })
    }

    fn cursor(&self) -> Option<u64> {
        self.cursors.get(&self.endpoint_hash).copied()
    }

    fn save(&mut self, cursor: u64) -> Result<()> {
        self.cursors.insert(self.endpoint_hash.clone(), cursor);
        file_output::replace_file(&self.path, &serde_json::to_vec(&self.cursors)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_standard_webhooks() {
        let headers = signed_headers("{}", 7, b"0123456789abcdef", 1_700_000_000).expect("headers");
        let text = |name: &str| headers.get(name).expect("a header").to_str().expect("text").to_owned();
        assert_eq!(text("webhook-id"), "7-44136fa355b3678a");
        assert_eq!(text("webhook-timestamp"), "1700000000");
        assert_eq!(text("webhook-signature"), "v1,3CPeFo8WIpYozp2i36kcpsWDCtTYPc0x2kfRZlDMch8=");
    }
}
