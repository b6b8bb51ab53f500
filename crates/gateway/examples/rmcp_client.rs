//! The Rust SDK as a client: prints one JSON object with the list and what each call gave.
//!
//!     rmcp_client URL TOKEN CALLS
#![allow(clippy::print_stdout, reason = "this is a program")]

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Map, Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(url), Some(token), Some(calls)) = (words.next(), words.next(), words.next()) else {
        return Err("usage: rmcp_client URL TOKEN CALLS".into());
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.auth_header = Some(token).filter(|token| !token.is_empty());
    let client = ().serve(StreamableHttpClientTransport::from_config(config)).await?;
    let tools: Vec<_> = client.list_all_tools().await?.into_iter().map(|tool| tool.name).collect();
    let mut results = Vec::new();
    for (name, arguments) in serde_json::from_str::<Vec<(String, Map<String, Value>)>>(&calls)? {
        let answer = client.call_tool(CallToolRequestParams::new(name).with_arguments(arguments)).await;
        results.push(match answer {
            Ok(result) => serde_json::to_value(result)?,
            Err(error) => json!({ "message": error.to_string() }),
        });
    }
    println!("{}", json!({ "tools": tools, "results": results }));
    client.cancel().await?;
    Ok(())
}
