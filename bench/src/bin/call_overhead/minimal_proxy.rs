//! A minimal proxy built with the same HTTP library as the gateway. It does not inspect requests.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

/// Forwards every request to a local port.
pub async fn serve_proxy(port: u16, upstream: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let _ = stream.set_nodelay(true);
        let client = client.clone();
        let service = service_fn(move |request| forward(client.clone(), upstream, request));
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn forward(
    client: Client<HttpConnector, Incoming>,
    upstream: u16,
    mut request: Request<Incoming>,
) -> Result<Response<Either<Incoming, Empty<Bytes>>>, Infallible> {
    let to = format!("http://127.0.0.1:{upstream}{}", request.uri().path());
    *request.uri_mut() = to.parse::<Uri>().expect("a URL");
    match client.request(request).await {
        Ok(response) => Ok(response.map(Either::Left)),
        Err(_) => {
            let mut response = Response::new(Either::Right(Empty::new()));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            Ok(response)
        }
    }
}
