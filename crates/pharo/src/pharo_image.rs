//! HTTP client for the image. Each request uses its own connection.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mutants::mutant;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::pharo_tools::HttpVerb;

/// Address of a Pharo image.
#[derive(Debug, Clone)]
pub struct PharoImage {
    /// A host name or an IP address.
    pub host: String,
    /// Port of the image's interop server.
    pub port: u16,
    /// Whether the image may be on another machine. The interop server does not authenticate clients.
    pub allow_remote: bool,
    /// Maximum size of a response.
    pub max_response_bytes: usize,
}

/// Why a request to the image got no valid response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PharoImageError {
    /// The host name cannot be resolved.
    #[error("cannot resolve the name: {0}")]
    UnknownHost(std::io::Error),
    /// The host name resolves to another machine.
    #[error("{0} is not an address of this machine")]
    RemoteHost(SocketAddr),
    /// The connection cannot be opened.
    #[error("{0}")]
    Unreachable(std::io::Error),
    /// The connection was closed before the response was complete. The value says how much of the body was received, if
    /// the headers had arrived.
    #[error("the connection was closed before the response was complete")]
    ConnectionDropped(Option<BodyTruncation>),
    /// The response is not HTTP.
    #[error("the response is not HTTP: {0}")]
    NotHttp(String),
    /// No complete response arrived in time.
    #[error("no response within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The request target is too long.
    #[error("the request's target would have {0} bytes")]
    RequestTooLong(usize),
    /// The response is too large.
    #[error("the response has more than {0} bytes")]
    ResponseTooLarge(usize),
}

/// How much of a truncated body was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyTruncation {
    /// Number of bytes received.
    pub received: u64,
    /// Number of bytes announced in the `Content-Length` header, if present.
    pub expected: Option<u64>,
}

/// A response from the image.
#[derive(Debug)]
pub(crate) struct ImageResponse {
    pub status: StatusCode,
    pub body: Bytes,
}

/// A request to the image.
#[derive(Debug)]
pub(crate) struct ImageRequest {
    pub verb: HttpVerb,
    /// Path and query.
    pub target: String,
    pub body: String,
}

impl PharoImage {
    /// Returns the host and port in URL syntax.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') && !self.host.starts_with('[') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(&self, question: ImageRequest, time: Duration) -> Result<ImageResponse, PharoImageError> {
        tokio::time::timeout(time, self.exchange(question)).await.unwrap_or(Err(PharoImageError::Timeout(time)))
    }

    async fn exchange(&self, question: ImageRequest) -> Result<ImageResponse, PharoImageError> {
        let request = self.request(question)?;
        let stream = self.connect().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| to_image_error(&error))?;
        let asking = async {
            let response = sender.send_request(request).await.map_err(|error| to_image_error(&error))?;
            self.read(response).await
        };
        // The connection is polled here, so that it ends together with the request.
        let mut connection = std::pin::pin!(connection);
        let mut asking = std::pin::pin!(asking);
        tokio::select! {
            answer = &mut asking => answer,
            _ = &mut connection => asking.await,
        }
    }

    /// Connects to the first address that accepts a connection. The name is resolved each time, because its addresses
    /// may change.
    async fn connect(&self) -> Result<TcpStream, PharoImageError> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((host, self.port)).await.map_err(PharoImageError::UnknownHost)?;
        let mut last = None;
        for address in found {
            let may_be_remote = self.allow_remote || mutant!("remote-image-always-allowed");
            if !may_be_remote && !address.ip().to_canonical().is_loopback() {
                return Err(PharoImageError::RemoteHost(address));
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        let none = || std::io::Error::new(ErrorKind::NotFound, "it has no address");
        Err(PharoImageError::Unreachable(last.unwrap_or_else(none)))
    }

    fn request(&self, question: ImageRequest) -> Result<Request<Full<Bytes>>, PharoImageError> {
        let host = HeaderValue::try_from(self.authority())
            .map_err(|_| PharoImageError::UnknownHost(std::io::Error::other("it is not valid in a `Host` header")))?;
        let mut request = Request::new(Full::from(question.body));
        *request.method_mut() = match question.verb {
            HttpVerb::Get => Method::GET,
            HttpVerb::Post => Method::POST,
        };
        // INVARIANT: a target consists of a path of the tool table and a percent-encoded query, so only its length can
        // be wrong.
        *request.uri_mut() =
            question.target.parse().map_err(|_| PharoImageError::RequestTooLong(question.target.len()))?;
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if question.verb == HttpVerb::Post {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(request)
    }

    async fn read(&self, response: http::Response<Incoming>) -> Result<ImageResponse, PharoImageError> {
        let status = response.status();
        let body = response.into_body();
        let expected = body.size_hint().exact();
        let mut body = Limited::new(body, self.max_response_bytes);
        let mut read = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => read.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Err(error) if error.is::<LengthLimitError>() => {
                    return Err(PharoImageError::ResponseTooLarge(self.max_response_bytes));
                }
                Err(_) => {
                    return Err(PharoImageError::ConnectionDropped(Some(BodyTruncation {
                        received: read.len() as u64,
                        expected,
                    })));
                }
            }
        }
        Ok(ImageResponse { status, body: read.into() })
    }
}

fn to_image_error(error: &hyper::Error) -> PharoImageError {
    if error.is_parse() {
        PharoImageError::NotHttp(error.to_string())
    } else {
        PharoImageError::ConnectionDropped(None)
    }
}
