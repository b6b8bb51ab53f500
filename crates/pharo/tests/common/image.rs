//! A contract fake of an image's interop server: it answers what it is told, byte by byte, and keeps what it was asked.
//!
//! It is not Pharo and evaluates nothing. What it stands for is the wire: status, head, body, and how they can fail.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::soon;

/// A request that reached the image.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Verb and target.
    pub line: String,
    /// The headers as they came, a line each.
    pub headers: Vec<String>,
    pub body: String,
}

/// What the image does next on a connection.
#[derive(Debug, Clone)]
pub enum Step {
    Write(Vec<u8>),
    /// Writes the same again and again, until so many bytes were taken or the other side is gone.
    Flood(Vec<u8>, usize),
    /// Waits until the test lets it go on: a permit for each that may, given before or after it waits.
    Wait(Arc<Semaphore>),
    /// Says nothing more until the other side is gone.
    Stall,
}

/// What it does for one request. At its end the connection is closed.
pub type Script = Vec<Step>;

type Handler = Arc<dyn Fn(&Asked) -> Script + Send + Sync>;

/// What happened, for those who wait for it.
#[derive(Debug, Clone, Default)]
struct Log {
    asked: Vec<Asked>,
    /// Bytes of the last flood that were taken.
    flooded: usize,
    /// Connections that the other side ended before the script did.
    hung_up: usize,
}

pub struct FakeImage {
    pub address: SocketAddr,
    log: watch::Receiver<Log>,
    handler: Arc<Mutex<Handler>>,
}

impl FakeImage {
    /// Answers every question with a body of JSON.
    pub async fn answering(body: &str) -> Self {
        Self::doing(success_raw(body)).await
    }

    /// Does the same for every question.
    pub async fn doing(script: Script) -> Self {
        Self::start(move |_| script.clone()).await
    }

    pub async fn start(handler: impl Fn(&Asked) -> Script + Send + Sync + 'static) -> Self {
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

    /// From now on it does this.
    pub fn now_does(&self, script: Script) {
        *self.handler.lock().unwrap() = Arc::new(move |_| script.clone());
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Everything that it was asked, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.log.borrow().asked.clone()
    }

    /// The first lines of what it was asked.
    pub fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }

    pub fn flooded(&self) -> usize {
        self.log.borrow().flooded
    }

    /// Waits until it was asked so many times.
    pub async fn is_asked(&self, times: usize) {
        let mut log = self.log.clone();
        soon("the image is asked", log.wait_for(|log| log.asked.len() >= times)).await.expect("a fake");
    }

    /// Waits until so many connections were ended by the other side.
    pub async fn is_left(&self, times: usize) {
        let mut log = self.log.clone();
        soon("the connection to the image ends", log.wait_for(|log| log.hung_up >= times)).await.expect("a fake");
    }

    pub fn hung_up(&self) -> usize {
        self.log.borrow().hung_up
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
            return log.send_modify(|log| log.hung_up += 1);
        }
    }
}

/// Reads one request with all that belongs to it. More than that is kept in its body, so that a test sees it.
async fn read(stream: &mut TcpStream) -> Option<Asked> {
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
    Some(Asked { line, headers, body: String::from_utf8(body).expect("a body in UTF-8") })
}

/// Any bytes.
pub fn raw(bytes: impl AsRef<[u8]>) -> Script {
    vec![Step::Write(bytes.as_ref().to_vec())]
}

/// A whole answer with a status and a kind.
pub fn page(status: &str, kind: &str, body: impl AsRef<[u8]>) -> Script {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    raw([head.as_bytes(), body].concat())
}

/// What the image answers when all is well.
pub fn success(result: &str) -> Script {
    success_raw(&format!(r#"{{"success":true,"result":{result}}}"#))
}

/// What the image answers when its code failed.
pub fn failure(error: &str) -> Script {
    success_raw(&format!(r#"{{"success":false,"error":{error}}}"#))
}

fn success_raw(body: &str) -> Script {
    page("200 OK", "application/json", body)
}
