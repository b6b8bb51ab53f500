//! Reads sources that a crawl kept, and tells their tools: one line of JSON for each file.
//!
//! `cargo run --release -p gatelodge-indexer --example read_kept -- pypi CACHE_SIZE_PRAGMA/00/00….gz …`

#![allow(clippy::print_stdout, reason = "it is a program that prints")]

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use flate2::read::GzDecoder;
use gatelodge_catalogue::UnpackedArchive;
use gatelodge_indexer::{extract_javascript_tools, extract_python_tools};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let source = arguments.next().ok_or("say `pypi` or `npm`, then files that a crawl kept")?;
    for path in arguments {
        let kept: UnpackedArchive = serde_json::from_reader(BufReader::new(GzDecoder::new(File::open(&path)?)))?;
        let files = kept.source_files();
        let found = if source == "pypi" { extract_python_tools(&files) } else { extract_javascript_tools(&files) };
        println!("{}", serde_json::json!({ "path": path, "tools": found.tools, "passed_over": found.unread_parts }));
    }
    Ok(())
}
