//! Clients that start a process and communicate over its stdio.

use std::process::Stdio;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::bench_client::{INITIALIZE_REQUEST, RequestKind};
use super::bench_target::{cpu_ticks, resident_kib};
use super::load_generator::{LoadSlice, LoadSpec, microseconds};

/// A client and its child process.
struct BenchStdioClient {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl BenchStdioClient {
    async fn start(command: &[String]) -> Self {
        let (program, arguments) = command.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("a process");
        let to = child.stdin.take().expect("its input");
        let from = BufReader::new(child.stdout.take().expect("its output"));
        let mut speaker = Self { child, stdin: to, stdout: from, line: String::new() };
        assert!(
            speaker.request(INITIALIZE_REQUEST).await.contains("serverInfo"),
            "initialize failed: {}",
            speaker.line
        );
        speaker.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        speaker
    }

    async fn write(&mut self, message: &str) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.expect("a reader");
    }

    async fn request(&mut self, message: &str) -> &str {
        self.write(message).await;
        self.line.clear();
        self.stdout.read_line(&mut self.line).await.expect("an answer");
        &self.line
    }

    /// Returns the CPU ticks of the process itself, without those of the server that it runs as a child.
    fn cpu_ticks(&self) -> u64 {
        self.child.id().map_or(0, cpu_ticks)
    }
}

/// Runs one slice, each connection with its own process.
pub async fn run_stdio_slice(command: &[String], load: LoadSpec) -> LoadSlice {
    let mut speakers = Vec::new();
    for _ in 0..load.connections {
        speakers.push(BenchStdioClient::start(command).await);
    }
    let before: u64 = speakers.iter().map(BenchStdioClient::cpu_ticks).sum();
    let since = Instant::now();
    let tasks: Vec<_> =
        speakers.into_iter().map(|speaker| tokio::spawn(call_until(speaker, since + load.time))).collect();
    let mut times = Vec::new();
    let mut speakers = Vec::new();
    for task in tasks {
        let (took, speaker) = task.await.expect("a caller");
        times.extend(took);
        speakers.push(speaker);
    }
    let mut slice = LoadSlice::of(times, since.elapsed());
    slice.cpu_micros = (speakers.iter().map(BenchStdioClient::cpu_ticks).sum::<u64>() - before) * 10_000;
    slice.memory_kib = speakers.iter().filter_map(|speaker| speaker.child.id()).map(resident_kib).sum();
    slice
}

async fn call_until(mut speaker: BenchStdioClient, end: Instant) -> (Vec<u32>, BenchStdioClient) {
    let (mut times, mut at) = (Vec::new(), 0);
    let mut since = Instant::now();
    while since < end {
        at += 1;
        let answer = speaker.request(&RequestKind::Stdio.request_body(at, false)).await;
        let took = since.elapsed();
        RequestKind::Stdio.check_response(at, answer);
        times.push(microseconds(took));
        since = Instant::now();
    }
    (times, speaker)
}
