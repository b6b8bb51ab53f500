//! A client over standard input and output, which are in-memory pipes.

use std::sync::Arc;

use gatelodge_pharo::{PharoServer, serve_stdio};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;

use super::{FakeImage, server, settings, soon};

pub struct StdioClient {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl StdioClient {
    /// Connects a client to a server for this image, with default settings.
    pub fn of(image: &FakeImage) -> Self {
        Self::to(server(image.port(), settings()))
    }

    pub fn to(pharo: Arc<PharoServer>) -> Self {
        let (input, theirs_in) = tokio::io::duplex(1 << 16);
        let (theirs_out, output) = tokio::io::duplex(1 << 16);
        let serving = tokio::spawn(serve_stdio(pharo, theirs_in, theirs_out));
        Self { input, output: BufReader::new(output).lines(), serving }
    }

    pub async fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes()).await;
    }

    pub async fn send_raw(&mut self, bytes: &[u8]) {
        soon("the server reads", self.input.write_all(bytes)).await.expect("an open pipe");
    }

    /// Returns the next line, unchanged.
    pub async fn next_line(&mut self) -> String {
        soon("a line comes", self.output.next_line()).await.expect("an open pipe").expect("a line")
    }

    pub async fn next(&mut self) -> Value {
        let line = self.next_line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends a request and returns the next line.
    pub async fn ask(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.next().await
    }

    /// Closes the input without reading the remaining output. Waits until the server ends.
    pub async fn leave_unread(self) {
        let Self { input, output, serving } = self;
        drop(input);
        serving.await.expect("no panic").expect("good streams");
        drop(output);
    }

    /// Closes the input and returns the remaining messages. Waits until the server ends.
    pub async fn end(self) -> Vec<Value> {
        let Self { input, mut output, serving } = self;
        drop(input);
        let mut rest = Vec::new();
        while let Some(line) = soon("the output ends", output.next_line()).await.expect("an open pipe") {
            rest.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")));
        }
        soon("the server ends", serving).await.expect("no panic").expect("good streams");
        rest
    }
}
