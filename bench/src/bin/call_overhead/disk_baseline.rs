//! Time to sync one page to the disk: the minimum cost of a row that must survive a power failure.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::load_generator::microseconds;

/// Appends pages to a file, each synced before the next, until `time` has passed.
pub fn sync_pages(file: &Path, time: Duration) -> Vec<u32> {
    let mut file = File::options().create(true).append(true).open(file).expect("a file");
    let (mut times, start) = (Vec::new(), Instant::now());
    while start.elapsed() < time {
        let since = Instant::now();
        file.write_all(&[7; 4096]).expect("room");
        file.sync_data().expect("a disk");
        times.push(microseconds(since.elapsed()));
    }
    times
}
