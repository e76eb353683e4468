//! Fails deliveries between the sink and the server: a connection breaks as its transaction begins, or when it is
//! committed and before anybody is told.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::faults::{Delivery, SinkErrors};

/// A running proxy; it takes no more connections when this is dropped.
pub struct Proxy {
    port: u16,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of a loopback port.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(server: u16, errors: Arc<SinkErrors>) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let accepting = tokio::spawn(async move {
            while let Ok((sink, _)) = listener.accept().await {
                let errors = Arc::clone(&errors);
                // An error is a connection that ended, on purpose or not.
                tokio::spawn(async move { between(sink, server, &errors).await });
            }
        });
        Ok(Proxy { port, accepting })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn between(sink: TcpStream, server: u16, errors: &SinkErrors) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server)).await?;
    sink.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_sink, to_sink) = sink.into_split();
    let (from_server, to_server) = server.into_split();
    let silence = Notify::new();
    // Whichever ends first ends both.
    tokio::select! {
        ended = asked(from_sink, to_server, errors, &silence) => ended,
        ended = answered(from_server, to_sink, &silence) => ended,
    }
}

/// Hands on what the sink says, message by message.
/// Source: <https://www.postgresql.org/docs/current/protocol-message-formats.html> (2026-08).
async fn asked(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    errors: &SinkErrors,
    silence: &Notify,
) -> io::Result<()> {
    let mut delivery = Delivery::Answered;
    // The first message has no type.
    let length = from.read_u32().await?;
    hand_on(&mut from, &mut to, None, length).await?;
    loop {
        let kind = from.read_u8().await?;
        let length = from.read_u32().await?;
        let statement = hand_on_if(&mut from, &mut to, kind, length, |text| {
            if text.starts_with(b"BEGIN") {
                delivery = errors.next();
                return delivery != Delivery::FailsBefore;
            }
            if text.starts_with(b"COMMIT") && delivery == Delivery::FailsAfter {
                silence.notify_one();
            }
            true
        });
        if !statement.await? {
            return Ok(());
        }
    }
}

/// Hands a message on; one that holds a statement only if `wanted`. Answers whether it did.
async fn hand_on_if(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    kind: u8,
    length: u32,
    wanted: impl FnOnce(&[u8]) -> bool,
) -> io::Result<bool> {
    if kind != b'Q' {
        hand_on(from, to, Some(kind), length).await?;
        return Ok(true);
    }
    let mut text = vec![0; (length as usize).saturating_sub(4)];
    from.read_exact(&mut text).await?;
    if !wanted(&text) {
        return Ok(false);
    }
    to.write_u8(kind).await?;
    to.write_u32(length).await?;
    to.write_all(&text).await?;
    Ok(true)
}

async fn hand_on(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    kind: Option<u8>,
    length: u32,
) -> io::Result<()> {
    if let Some(kind) = kind {
        to.write_u8(kind).await?;
    }
    to.write_u32(length).await?;
    let mut message = from.take(u64::from(length).saturating_sub(4));
    tokio::io::copy(&mut message, to).await.map(|_| ())
}

/// Hands on what the server answers. After `silence` the next answer, which is that to the commit, ends it.
async fn answered(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    silence: &Notify,
) -> io::Result<()> {
    let mut piece = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        // The permit is there before the statement is handed on, so before its answer.
        let silent = std::pin::pin!(silence.notified()).enable();
        if silent {
            return Ok(());
        }
        to.write_all(&piece[..read]).await?;
    }
}
