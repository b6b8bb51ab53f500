//! A fake of an image's interop server. It replies with scripted bytes and records requests.
//!
//! It evaluates nothing; it covers the wire protocol: status, headers, body, and their failures.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::soon;

/// A request that reached the image.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// Method and target.
    pub line: String,
    /// Header lines, unchanged.
    pub headers: Vec<String>,
    pub body: String,
}

/// One step of a script.
#[derive(Debug, Clone)]
pub enum Step {
    Write(Vec<u8>),
    /// Writes the same bytes repeatedly until this many were accepted or the connection is closed.
    Flood(Vec<u8>, usize),
    /// Waits for a permit of the test, which may be added before or after.
    Wait(Arc<Semaphore>),
    /// Sends nothing more until the connection is closed.
    Stall,
}

/// Steps for one request. The connection is closed after the last one.
pub type Script = Vec<Step>;

type Handler = Arc<dyn Fn(&RecordedRequest) -> Script + Send + Sync>;

/// Recorded events.
#[derive(Debug, Clone, Default)]
struct Log {
    asked: Vec<RecordedRequest>,
    /// Bytes of the last flood that were accepted.
    flooded: usize,
    /// Connections that the other side closed before the script ended.
    disconnects: usize,
}

pub struct FakeImage {
    pub address: SocketAddr,
    log: watch::Receiver<Log>,
    handler: Arc<Mutex<Handler>>,
}

impl FakeImage {
    /// Answers every request with a JSON body.
    pub async fn answering(body: &str) -> Self {
        Self::doing(success_raw(body)).await
    }

    /// Runs the same script for every request.
    pub async fn doing(script: Script) -> Self {
        Self::start(move |_| script.clone()).await
    }

    pub async fn start(handler: impl Fn(&RecordedRequest) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (log, seen) = watch::channel(Log::default());
        let handler: Arc<Mutex<Handler>> = Arc::new(Mutex::new(Arc::new(handler)));
        let own = Self { address, log: seen, handler: Arc::clone(&handler) };
        tokio::spawn(async move {
            let log = Arc::new(log);
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&handler), Arc::clone(&log)));
            }
        });
        own
    }

    /// Replaces the script.
    pub fn set_script(&self, script: Script) {
        *self.handler.lock().unwrap() = Arc::new(move |_| script.clone());
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns all requests in order.
    pub fn asked(&self) -> Vec<RecordedRequest> {
        self.log.borrow().asked.clone()
    }

    /// Returns the request lines.
    pub fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }

    pub fn flooded(&self) -> usize {
        self.log.borrow().flooded
    }

    /// Waits until there were this many requests.
    pub async fn wait_for_requests(&self, times: usize) {
        let mut log = self.log.clone();
        soon("the image is asked", log.wait_for(|log| log.asked.len() >= times)).await.expect("a fake");
    }

    /// Waits until the other side has closed this many connections.
    pub async fn wait_for_disconnects(&self, times: usize) {
        let mut log = self.log.clone();
        soon("the connection to the image ends", log.wait_for(|log| log.disconnects >= times)).await.expect("a fake");
    }

    pub fn disconnects(&self) -> usize {
        self.log.borrow().disconnects
    }
}

async fn serve(mut stream: TcpStream, handler: Arc<Mutex<Handler>>, log: Arc<watch::Sender<Log>>) {
    let Some(asked) = read(&mut stream).await else { return };
    let handler = Arc::clone(&handler.lock().unwrap());
    let script = handler(&asked);
    log.send_modify(|log| log.asked.push(asked));
    for step in script {
        let is_gone = match step {
            Step::Write(bytes) => stream.write_all(&bytes).await.is_err(),
            Step::Flood(bytes, most) => {
                let mut taken = 0;
                while taken < most && stream.write_all(&bytes).await.is_ok() {
                    taken += bytes.len();
                }
                log.send_modify(|log| log.flooded = taken);
                taken < most
            }
            Step::Wait(go_on) => {
                let mut byte = [0];
                tokio::select! {
                    permit = go_on.acquire() => {
                        permit.expect("an open gate").forget();
                        false
                    }
                    _ = stream.read(&mut byte) => true,
                }
            }
            Step::Stall => {
                let _ = stream.read(&mut [0]).await;
                true
            }
        };
        if is_gone {
            return log.send_modify(|log| log.disconnects += 1);
        }
    }
}

/// Reads one request. Excess bytes are kept in its body, so that a test sees them.
async fn read(stream: &mut TcpStream) -> Option<RecordedRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head in UTF-8");
    let mut lines = head.split("\r\n").map(str::to_owned);
    let line = lines.next()?;
    let headers: Vec<String> = lines.collect();
    let length =
        headers.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = bytes.split_off(end + 4);
    while body.len() < length.unwrap_or(0) {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(RecordedRequest { line, headers, body: String::from_utf8(body).expect("a body in UTF-8") })
}

/// A script that writes any bytes.
pub fn raw(bytes: impl AsRef<[u8]>) -> Script {
    vec![Step::Write(bytes.as_ref().to_vec())]
}

/// A complete response with a status and a content type.
pub fn page(status: &str, kind: &str, body: impl AsRef<[u8]>) -> Script {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    raw([head.as_bytes(), body].concat())
}

/// A successful response of the image.
pub fn success(result: &str) -> Script {
    success_raw(&format!(r#"{{"success":true,"result":{result}}}"#))
}

/// A failed response of the image.
pub fn failure(error: &str) -> Script {
    success_raw(&format!(r#"{{"success":false,"error":{error}}}"#))
}

fn success_raw(body: &str) -> Script {
    page("200 OK", "application/json", body)
}
