//! `gatelodge call`: one tool, called as an agent would.

use std::time::Duration;

use anyhow::Result;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;

use crate::cli::CallArgs;
use crate::client::{Client, ClientError};
use crate::exit::{Exit, Usage};
use crate::report::{say, shown};
use crate::{address, environment, output};

/// What stands before a refusal's text, and how the command then ends.
const REFUSALS: &[(&str, Exit)] =
    &[("[POLICY DENIED]", Exit::Denied), ("[GATEWAY]", Exit::Fault), ("[UPSTREAM]", Exit::Unreachable)];

pub fn run(args: &CallArgs) -> Result<Exit> {
    let url = address::parse(&args.url).map_err(|fault| Usage(format!("{}; {}", fault.message(), fault.help())))?;
    let arguments: Value = serde_json::from_str(&args.arguments).ok().filter(Value::is_object).ok_or_else(|| {
        Usage("the arguments are not a JSON object; write them like '{\"name\": \"plans\"}'".to_owned())
    })?;
    let mut headers = HeaderMap::new();
    if let Some(token) = environment::variable(&args.token_env) {
        let value = HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut value = value.map_err(|_| Usage(format!("what `{}` holds is not a token", args.token_env)))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let opened = Client::open(url, headers, args.era, Duration::from_secs(args.timeout)).await;
        let mut client = match opened {
            Ok(client) => client,
            Err(error) => return failed(&error, args),
        };
        let exit = match &args.tool {
            Some(tool) => call(&mut client, tool, &arguments, args).await,
            None => list(&mut client, args).await,
        };
        client.close().await;
        exit
    })
}

async fn call(client: &mut Client, tool: &str, arguments: &Value, args: &CallArgs) -> Result<Exit> {
    for _ in 0..args.times {
        let result = match client.call(tool, arguments).await {
            Ok(result) => result,
            Err(error) => return failed(&error, args),
        };
        if args.json {
            output::json(&result)?;
        } else {
            output::print(&format!("{}\n", text_of(&result)))?;
        }
        let exit = exit_of(&result);
        if exit != Exit::Fine {
            return Ok(exit);
        }
    }
    Ok(Exit::Fine)
}

async fn list(client: &mut Client, args: &CallArgs) -> Result<Exit> {
    let tools = match client.tools().await {
        Ok(tools) => tools,
        Err(error) => return failed(&error, args),
    };
    if args.json {
        output::json(&tools)?;
        return Ok(Exit::Fine);
    }
    let text = |tool: &Value, name: &str| shown(tool.get(name).and_then(Value::as_str).unwrap_or_default());
    let rows: Vec<_> = tools.iter().map(|tool| vec![text(tool, "name"), text(tool, "description")]).collect();
    output::print(&output::table(&rows))?;
    Ok(Exit::Fine)
}

/// Says why there is no result.
fn failed(error: &ClientError, args: &CallArgs) -> Result<Exit> {
    let url = address::shown(&args.url);
    let why = shown(&error.to_string());
    let (what, exit) = match error {
        ClientError::Unreachable(_) => (format!("error: cannot reach {url}: {why}"), Exit::Unreachable),
        ClientError::Status(401, why) => {
            let variable = &args.token_env;
            let help = format!("put the token of a grant into `{variable}`: export {variable}=…");
            (format!("error: not let in: {}\nhelp: {help}", shown(why)), Exit::Denied)
        }
        ClientError::Refused(refused) if refused.message.starts_with("[POLICY DENIED]") => {
            (shown(&refused.message), Exit::Denied)
        }
        ClientError::Refused(_) => (why, Exit::Findings),
        ClientError::Status(..) | ClientError::NotMcp(_) => {
            let is_ours = matches!(error, ClientError::Status(400..=499, _));
            (format!("error: {url}: {why}"), if is_ours { Exit::Findings } else { Exit::Fault })
        }
    };
    say(&what);
    if args.json {
        output::error(what.trim_start_matches("error: "), exit)?;
    }
    Ok(exit)
}

fn exit_of(result: &Value) -> Exit {
    if result.get("isError") != Some(&Value::Bool(true)) {
        return Exit::Fine;
    }
    let text = text_of(result);
    let known = REFUSALS.iter().find(|(mark, _)| text.starts_with(mark));
    known.map_or(Exit::Findings, |(_, exit)| *exit)
}

/// What a result says in words; of other content its kind.
fn text_of(result: &Value) -> String {
    let content = result.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let words = content.iter().map(|item| match item.get("text").and_then(Value::as_str) {
        Some(text) => text.lines().map(shown).collect::<Vec<_>>().join("\n"),
        None => format!("[{}]", shown(item.get("type").and_then(Value::as_str).unwrap_or("content"))),
    });
    words.collect::<Vec<_>>().join("\n")
}
