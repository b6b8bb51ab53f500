//! How fast tools are classified: `speed TOOLS.jsonl [COUNT]`, on one core, reading included.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a command that measures")]

use std::time::Instant;

use gatelodge_catalogue::{ServerContext, ToolListEntry, classify, read_tools};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let text = arguments.next().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
    let wanted: usize = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let server = ServerContext::new("server", None, ["get_note", "create_note", "delete_note"]);
    let (mut count, mut sure) = (0, 0.0);
    let start = Instant::now();
    while count < wanted {
        for (number, document) in read_tools(&text) {
            let Ok(document) = document else { continue };
            for item in ToolListEntry::read_all(&document, number).into_iter().flatten() {
                sure += classify(&item.tool, &server).confidence;
                count += 1;
            }
        }
        if count == 0 {
            println!("there is no tool to classify");
            return;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{count} tools in {seconds:.1} s, {:.0} a second, mean confidence {:.2}",
        count as f64 / seconds,
        sure / count as f64
    );
}
