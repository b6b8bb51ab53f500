//! MCP server for a Pharo Smalltalk image. Each tool call becomes one request to the image's interop server.
//!
//! It works with or without a gateway, over stdio or HTTP, and for both protocol generations. It keeps no state between
//! calls.

mod active_requests;
mod arguments;
mod mcp_server;
mod pharo_image;
mod pharo_tools;
mod python_server_compat;
mod request_encoding;
mod stdio_transport;
mod streamable_http;
mod tool_result;
mod tools_list;

pub use mcp_server::{PharoServer, PharoSettings, ScreenshotReader};
pub use pharo_image::PharoImage;
pub use stdio_transport::serve_stdio;
pub use streamable_http::serve_http;
