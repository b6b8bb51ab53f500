//! Callers that start a process and speak with it over its standard streams.

use std::process::Stdio;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::caller::{HELLO, Talk};
use super::load::{Load, Slice, microseconds};
use super::target::{cpu_ticks, resident_kib};

/// A client and its process, which ends with it.
struct Speaker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    line: String,
}

impl Speaker {
    async fn start(command: &[String]) -> Self {
        let (program, arguments) = command.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("a process");
        let to = child.stdin.take().expect("its input");
        let from = BufReader::new(child.stdout.take().expect("its output"));
        let mut speaker = Self { child, to, from, line: String::new() };
        assert!(speaker.say(HELLO).await.contains("serverInfo"), "no handshake: {}", speaker.line);
        speaker.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        speaker
    }

    async fn write(&mut self, message: &str) {
        self.to.write_all(format!("{message}\n").as_bytes()).await.expect("a reader");
    }

    async fn say(&mut self, message: &str) -> &str {
        self.write(message).await;
        self.line.clear();
        self.from.read_line(&mut self.line).await.expect("an answer");
        &self.line
    }

    /// Ticks of the process itself. The server that it runs is a process of its own and does not count.
    fn ticks(&self) -> u64 {
        self.child.id().map_or(0, cpu_ticks)
    }
}

/// Fills one slice, each connection with a process of its own.
pub async fn storm(command: &[String], load: Load) -> Slice {
    let mut speakers = Vec::new();
    for _ in 0..load.connections {
        speakers.push(Speaker::start(command).await);
    }
    let before: u64 = speakers.iter().map(Speaker::ticks).sum();
    let since = Instant::now();
    let tasks: Vec<_> = speakers.into_iter().map(|speaker| tokio::spawn(ask_on(speaker, since + load.time))).collect();
    let mut times = Vec::new();
    let mut speakers = Vec::new();
    for task in tasks {
        let (took, speaker) = task.await.expect("a caller");
        times.extend(took);
        speakers.push(speaker);
    }
    let mut slice = Slice::of(times, since.elapsed());
    slice.cpu = (speakers.iter().map(Speaker::ticks).sum::<u64>() - before) * 10_000;
    slice.memory = speakers.iter().filter_map(|speaker| speaker.child.id()).map(resident_kib).sum();
    slice
}

async fn ask_on(mut speaker: Speaker, end: Instant) -> (Vec<u32>, Speaker) {
    let (mut times, mut at) = (Vec::new(), 0);
    let mut since = Instant::now();
    while since < end {
        at += 1;
        let answer = speaker.say(&Talk::Lines.body(at, false)).await;
        let took = since.elapsed();
        Talk::Lines.check(at, answer);
        times.push(microseconds(took));
        since = Instant::now();
    }
    (times, speaker)
}
