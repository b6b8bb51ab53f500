//! An MCP server for a Pharo Smalltalk image: what an agent asks becomes one request to the image's interop server.
//!
//! It stands alone: over the standard streams or over HTTP, in both eras of the protocol, with or without a gateway
//! before it. Nothing is kept between calls.

mod active_requests;
mod arguments;
mod compat;
mod mcp_server;
mod pharo_image;
mod pharo_tools;
mod request_encoding;
mod stdio_transport;
mod streamable_http;
mod tool_result;
mod tools_list;

pub use mcp_server::{Pharo, ReadPicture, Settings};
pub use pharo_image::PharoImage;
pub use stdio_transport::serve_stdio;
pub use streamable_http::serve_http;
