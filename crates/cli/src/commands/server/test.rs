//! `server test`: connects as the gateway would, and tells what the server offers.

use std::time::Duration;

use anyhow::Result;
use gatelodge_gateway::UpstreamConfig;
use http::HeaderMap;
use serde::Serialize;
use serde_json::Value;

use crate::cli::NamedArgs;
use crate::client::{Client, ClientError, EraChoice};
use crate::desk::{self, Desk, Need};
use crate::exit::{Exit, Usage};
use crate::report::{say, shown};
use crate::wire::{merge, stored};
use crate::{environment, output};

/// How long a server may take.
const TIME: Duration = Duration::from_secs(10);

/// What a server said.
#[derive(Debug, Serialize)]
pub struct Offered {
    server: String,
    revision: String,
    /// The names of its tools.
    pub tools: Vec<String>,
}

pub fn run(args: NamedArgs) -> Result<Exit> {
    desk::at(&args.store, Need::There, async |desk| {
        let server = find(&desk, &args.name).await?;
        match reach(&server).await {
            Ok(offered) if args.json => output::json(&offered)?,
            Ok(offered) => {
                let (name, revision) = (&offered.server, &offered.revision);
                let count = offered.tools.len();
                output::print(&format!("{name}, revision {revision}, {count} tools\n"))?;
                offered.tools.iter().try_for_each(|tool| output::print(&format!("  {tool}\n")))?;
            }
            Err(error) => {
                say(&format!("error: server `{}`: {}", server.name, cut(&server, &error.to_string())));
                return Ok(exit_of(&error));
            }
        }
        Ok(Exit::Fine)
    })
}

async fn find(desk: &Desk, name: &str) -> Result<UpstreamConfig> {
    let picture = merge(&desk.entries(), &stored(&desk.stores).await?, &environment::variable);
    if let Some(server) = picture.servers.into_iter().find(|server| server.name.as_str() == name) {
        return Ok(server);
    }
    // Left out, or not there at all.
    let why = picture.remarks.into_iter().find(|remark| remark.starts_with(&format!("server `{name}`")));
    Err(Usage(why.unwrap_or_else(|| format!("there is no server `{}`", shown(name)))).into())
}

/// Greets a server and lists its tools, with the headers that the gateway sends.
pub async fn reach(server: &UpstreamConfig) -> Result<Offered, ClientError> {
    let mut headers = HeaderMap::new();
    for header in &server.headers {
        headers.insert(header.name.clone(), header.value.clone());
    }
    let mut client = Client::open(server.url.clone(), headers, EraChoice::Auto, TIME).await?;
    let tools = client.tools().await?;
    let name = |tool: &Value| shown(tool.get("name").and_then(Value::as_str).unwrap_or("?"));
    let tools = tools.iter().map(|tool| cut(server, &name(tool))).collect();
    let offered = Offered { server: cut(server, &client.server), revision: cut(server, &client.revision), tools };
    client.close().await;
    Ok(offered)
}

/// Takes the server's secrets out of what it said.
pub fn cut(server: &UpstreamConfig, text: &str) -> String {
    let secrets = server.headers.iter().flat_map(|header| &header.secrets).filter(|secret| !secret.is_empty());
    shown(&secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***")))
}

fn exit_of(error: &ClientError) -> Exit {
    match error {
        ClientError::Unreachable(_) => Exit::Unreachable,
        ClientError::Status(..) | ClientError::NotMcp(_) | ClientError::Refused(_) => Exit::Findings,
    }
}
