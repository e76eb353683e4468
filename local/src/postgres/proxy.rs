//! Stands between the sink and the server: fails deliveries, as a connection that breaks when its transaction begins, or
//! when it is committed and before anybody is told; counts what the sink sends; and breaks or freezes a connection where
//! a test says.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::faults::{Delivery, SinkErrors};

/// No connection is broken.
const NEVER: u64 = u64::MAX;

/// A running proxy; it takes no more connections when this is dropped.
pub struct Proxy {
    port: u16,
    accepting: JoinHandle<()>,
    wire: Arc<Wire>,
}

/// What sinks sent through a proxy, over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Requests that the server was asked to answer: round trips.
    pub requests: u64,
    /// Bytes of all messages.
    pub bytes: u64,
}

/// What all connections of a proxy share.
struct Wire {
    errors: Arc<SinkErrors>,
    requests: AtomicU64,
    bytes: AtomicU64,
    /// How many bytes are handed on before a connection breaks.
    break_at: AtomicU64,
    freeze: AtomicBool,
}

impl Proxy {
    /// Starts a proxy in front of a loopback port.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(server: u16, errors: Arc<SinkErrors>) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let wire = Arc::new(Wire {
            errors,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            break_at: AtomicU64::new(NEVER),
            freeze: AtomicBool::new(false),
        });
        let shared = Arc::clone(&wire);
        let accepting = tokio::spawn(async move {
            while let Ok((sink, _)) = listener.accept().await {
                let wire = Arc::clone(&shared);
                // An error is a connection that ended, on purpose or not.
                tokio::spawn(async move { between(sink, server, &wire).await });
            }
        });
        Ok(Proxy {
            port,
            accepting,
            wire,
        })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the server behind it.
    pub fn url(&self) -> String {
        super::server::url(self.port)
    }

    /// What was sent so far.
    pub fn sent(&self) -> Sent {
        Sent {
            requests: self.wire.requests.load(Ordering::Relaxed),
            bytes: self.wire.bytes.load(Ordering::Relaxed),
        }
    }

    /// Breaks one connection, as a process does that is killed: that which would send more than so many bytes from now on.
    pub fn break_after(&self, bytes: u64) {
        let at = self.sent().bytes.saturating_add(bytes);
        self.wire.break_at.store(at, Ordering::Relaxed);
    }

    /// Freezes the next connection that commits, before the server is told: it stays open and is silent, as a Lambda
    /// environment is that nobody invokes.
    pub fn freeze_at_commit(&self) {
        self.wire.freeze.store(true, Ordering::Relaxed);
    }
}

impl Wire {
    /// Counts a message of so many bytes; returns whether its connection breaks instead.
    fn counts(&self, kind: Option<u8>, bytes: u64) -> bool {
        let sent = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // A statement in text, or the end of a request in several messages.
        if matches!(kind, Some(b'Q' | b'S')) {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        let breaks = sent > self.break_at.load(Ordering::Relaxed);
        if breaks {
            self.break_at.store(NEVER, Ordering::Relaxed);
        }
        breaks
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn between(sink: TcpStream, server: u16, wire: &Wire) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server)).await?;
    sink.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_sink, to_sink) = sink.into_split();
    let (from_server, to_server) = server.into_split();
    let silence = Notify::new();
    // Whichever ends first ends both.
    tokio::select! {
        ended = asked(from_sink, to_server, wire, &silence) => ended,
        ended = answered(from_server, to_sink, &silence) => ended,
    }
}

/// Hands on what the sink says, message by message.
/// Source: <https://www.postgresql.org/docs/current/protocol-message-formats.html> (2026-08).
async fn asked(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    wire: &Wire,
    silence: &Notify,
) -> io::Result<()> {
    let mut delivery = Delivery::Answered;
    // The first message has no type.
    let length = from.read_u32().await?;
    wire.counts(None, u64::from(length));
    hand_on(&mut from, &mut to, None, length).await?;
    loop {
        let kind = from.read_u8().await?;
        let length = from.read_u32().await?;
        if wire.counts(Some(kind), 1 + u64::from(length)) {
            return Ok(());
        }
        if kind != b'Q' {
            hand_on(&mut from, &mut to, Some(kind), length).await?;
            continue;
        }
        let mut text = vec![0; (length as usize).saturating_sub(4)];
        from.read_exact(&mut text).await?;
        if text.starts_with(b"BEGIN") {
            delivery = wire.errors.next();
            if delivery == Delivery::FailsBefore {
                return Ok(());
            }
        }
        if text.starts_with(b"COMMIT") {
            if wire.freeze.swap(false, Ordering::Relaxed) {
                return std::future::pending().await;
            }
            if delivery == Delivery::FailsAfter {
                silence.notify_one();
            }
        }
        to.write_u8(kind).await?;
        to.write_u32(length).await?;
        to.write_all(&text).await?;
    }
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
