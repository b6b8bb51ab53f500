//! A TCP stream that copies small vectored writes into one buffer and sends it with a single plain `write`.
//!
//! hyper writes the headers and the body of a message as two slices. For short messages the kernel takes longer to
//! gather slices than this takes to copy them; longer ones are passed on as they are. The gain was not measured alone.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Up to this size, copying is cheaper than a vectored write.
const MAX_COALESCED_BYTES: usize = 1 << 10;

/// Wrapper that coalesces small vectored writes.
#[derive(Debug)]
pub(crate) struct CoalescingStream(pub TcpStream);

impl CoalescingStream {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().0)
    }
}

impl AsyncRead for CoalescingStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buffer)
    }
}

impl AsyncWrite for CoalescingStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.iter().map(|slice| slice.len()).sum::<usize>() > MAX_COALESCED_BYTES {
            return self.stream().poll_write_vectored(cx, slices);
        }
        let mut short = [0; MAX_COALESCED_BYTES];
        let mut length = 0;
        for slice in slices {
            // INVARIANT: the slices fit by the check above; if one did not, all would be written uncopied.
            let Some(target) = short.get_mut(length..length + slice.len()) else {
                return self.stream().poll_write_vectored(cx, slices);
            };
            target.copy_from_slice(slice);
            length += slice.len();
        }
        self.stream().poll_write(cx, short.get(..length).unwrap_or_default())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn vectored_writes_arrive_complete_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a connection");
        let mut stream = CoalescingStream(stream);
        let (mut other, _) = listener.accept().await.expect("a connection");
        for lengths in [
            &[3, 4][..],
            &[MAX_COALESCED_BYTES - 1, 1],
            &[MAX_COALESCED_BYTES, 1],
            &[0, MAX_COALESCED_BYTES + 1, 5],
            &[10, 0, 20],
        ] {
            let parts: Vec<Vec<u8>> =
                lengths.iter().zip(b'a'..).map(|(length, letter)| vec![letter; *length]).collect();
            let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let all = parts.concat();
            let written = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &slices)).await.expect("written");
            assert_eq!(written, all.len(), "the socket buffer takes this much at once");
            let mut received = vec![0; all.len()];
            other.read_exact(&mut received).await.expect("what was written");
            assert!(received == all, "{lengths:?}");
        }
    }
}
