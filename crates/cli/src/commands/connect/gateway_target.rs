//! Finds the gateway's address and servers. The address is taken from the running gateway or, if none is running, from
//! the configuration; if neither provides one, the default is used. Server names come from both the running gateway and
//! the configuration.
//!
//! The configuration is read without validation, because `connect` usually runs where the environment variables for the
//! gateway are not set.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use gatelodge_admin::{server_url, suggest_name};
use gatelodge_server::{config, input_file};

use crate::cli::{ConnectArgs, StoreArgs};
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::UsageError;

/// Address, servers and data directory of a gateway.
pub struct GatewayTarget {
    /// Address that clients connect to.
    pub listen: SocketAddr,
    /// Names of the gateway's servers, sorted.
    pub servers: Vec<String>,
    /// The gateway's data directory.
    pub data: PathBuf,
    /// Label, server and token file of each configured grant that has a token file.
    token_files: Vec<(String, String, PathBuf)>,
}

impl GatewayTarget {
    /// Reads the configuration file, if one is given, and the running gateway's status file, if there is one.
    pub fn load(args: &StoreArgs) -> Result<Self> {
        let mut table = toml::Table::new();
        let mut home = PathBuf::new();
        if let Some(path) = &args.config {
            let text = input_file::read_source(path)?.text;
            let not_toml =
                || UsageError(format!("`{}` is not TOML; `gatelodge serve --check` shows the errors", path.display()));
            table = str::from_utf8(&text).ok().and_then(|text| toml::from_str(text).ok()).ok_or_else(not_toml)?;
            home = path.parent().map(PathBuf::from).unwrap_or_default();
        }
        let text = |section: &str, field: &str| table.get(section)?.get(field)?.as_str().map(str::to_owned);
        let written = text("store", "data").map(|data| home.join(data));
        let data = args.data.clone().or(written).or_else(config::default_data_directory);
        let data = data.ok_or_else(|| {
            UsageError("there is no home directory for the data; name a directory with `--data`".into())
        })?;
        let status = gatelodge_server::find_status_file(&data);
        let listen =
            text("gateway", "listen").and_then(|listen| listen.parse().ok()).unwrap_or(config::DEFAULT_GATEWAY_ADDRESS);
        let listen = status.as_ref().map_or(listen, |status| status.listen);
        let named = table.get("servers").and_then(toml::Value::as_array).into_iter().flatten();
        let mut servers: Vec<String> =
            named.filter_map(|server| server.get("name")?.as_str().map(str::to_owned)).collect();
        servers.extend(status.map(|status| status.servers).unwrap_or_default());
        servers.sort_unstable();
        servers.dedup();
        let grants = table.get("grants").and_then(toml::Value::as_array).into_iter().flatten();
        let tokens = grants.filter_map(|grant| {
            let field = |name: &str| grant.get(name)?.as_str();
            Some((field("label")?.to_owned(), field("server")?.to_owned(), home.join(field("token_file")?)))
        });
        Ok(Self { listen, servers, data, token_files: tokens.collect() })
    }

    /// Returns the token file of the grant that `init` created for this client and server.
    pub fn token_file(&self, client: &str, server: Option<&str>) -> Option<PathBuf> {
        let label = format!("{client}-{}", server?);
        let found = self.token_files.iter().find(|(own, at, _)| *own == label && Some(at.as_str()) == server);
        found.map(|(_, _, file)| file.clone()).filter(|file| file.exists())
    }

    /// Returns the server to which the client should connect, and its URL.
    pub fn resolve_server(&self, args: &ConnectArgs) -> Result<(Option<String>, String), UsageError> {
        if let Some(url) = &args.url {
            let usage_error =
                |error: server_url::ServerUrlError| UsageError(format!("{}; {}", error.message(), error.help()));
            let path = server_url::parse_server_url(url).map_err(usage_error)?.path().to_owned();
            let last = path.strip_prefix("/mcp/").map(|name| name.trim_end_matches('/').to_owned());
            return Ok((args.server.clone().or(last).filter(|name| !name.is_empty()), url.clone()));
        }
        let server = match (&args.server, self.servers.as_slice()) {
            (Some(server), []) => server,
            (Some(server), known) if known.contains(server) => server,
            (Some(server), known) => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(UsageError(format!(
                    "there is no server `{}`: {}",
                    escape_for_terminal(server),
                    suggest_name(server, &known)
                )));
            }
            (None, [only]) => only,
            (None, []) => {
                return Err(UsageError("name the server with `--server`, or its URL with `--url`".into()));
            }
            (None, many) => {
                return Err(UsageError(format!("name one of the servers with `--server`: {}", many.join(", "))));
            }
        };
        Ok((Some(server.clone()), self.server_url(server)))
    }

    /// Returns the URL of a server behind the gateway, for programs on this machine.
    pub fn server_url(&self, server: &str) -> String {
        format!("http://{}/mcp/{server}", loopback_if_unspecified(self.listen))
    }
}

/// Replaces an unspecified address such as `0.0.0.0` with the loopback address. A gateway that listens on all
/// interfaces can be reached there.
fn loopback_if_unspecified(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
