//! Extracts the tools of cached sources of a crawl and prints one line of JSON for each cache file.
//!
//! `cargo run --release -p gatelodge-indexer --example extract_cached -- pypi CACHE/00/00….gz …`

#![allow(clippy::print_stdout, reason = "it is a program that prints")]

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use flate2::read::GzDecoder;
use gatelodge_catalogue::UnpackedArchive;
use gatelodge_indexer::{extract_javascript_tools, extract_python_tools};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let source = arguments.next().ok_or("usage: extract_cached pypi|npm CACHE_FILE…")?;
    for path in arguments {
        let cached: UnpackedArchive = serde_json::from_reader(BufReader::new(GzDecoder::new(File::open(&path)?)))?;
        let files = cached.source_files();
        let found = if source == "pypi" { extract_python_tools(&files) } else { extract_javascript_tools(&files) };
        println!("{}", serde_json::json!({ "path": path, "tools": found.tools, "passed_over": found.unread_parts }));
    }
    Ok(())
}
