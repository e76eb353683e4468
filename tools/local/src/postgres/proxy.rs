//! A proxy between the sink and the PostgreSQL server. It makes deliveries fail: the connection breaks when a transaction
//! begins, or after its commit and before the sink gets the reply. It counts what the sink sends, and breaks or freezes a
//! connection when a test asks for that.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use emulators::StoreOutcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use crate::faults::SinkErrors;
use crate::relay::{Relay, connect};

/// A number of bytes that is never reached: no connection breaks.
const NEVER: u64 = u64::MAX;

/// A running proxy. Dropping it stops accepting connections; those that are open stay open.
pub struct Proxy {
    relay: Relay,
    wire: Arc<Wire>,
}

/// Counts of what sinks sent through a proxy, over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Requests to which the server must reply: round trips.
    pub requests: u64,
    /// Bytes of all messages.
    pub bytes: u64,
}

/// The state that all connections of a proxy share.
struct Wire {
    errors: Arc<SinkErrors>,
    requests: AtomicU64,
    bytes: AtomicU64,
    /// The connection that would exceed this sum of bytes breaks.
    break_at: AtomicU64,
    /// Whether the next connection that commits freezes.
    freeze: AtomicBool,
}

impl Proxy {
    /// Starts a proxy in front of the loopback port `server`.
    pub async fn start(server: u16, errors: Arc<SinkErrors>) -> anyhow::Result<Proxy> {
        let wire = Arc::new(Wire {
            errors,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            break_at: AtomicU64::new(NEVER),
            freeze: AtomicBool::new(false),
        });
        let forward =
            move |sink, wire: Arc<Wire>| async move { forward(sink, server, &wire).await };
        let relay = Relay::start(&wire, forward).await?;
        Ok(Proxy { relay, wire })
    }

    /// Returns the URL at which the server is reached through the proxy.
    pub fn url(&self) -> String {
        super::server::url(self.relay.port())
    }

    pub fn sent(&self) -> Sent {
        Sent {
            requests: self.wire.requests.load(Ordering::Relaxed),
            bytes: self.wire.bytes.load(Ordering::Relaxed),
        }
    }

    /// Breaks one connection, as if its process was killed: the one that sends more than `bytes` bytes from now on, counted
    /// over all connections.
    pub fn break_after(&self, bytes: u64) {
        let at = self.sent().bytes.saturating_add(bytes);
        self.wire.break_at.store(at, Ordering::Relaxed);
    }

    /// Freezes the next connection that commits, before the server gets the commit. The connection stays open and silent,
    /// like that of a frozen Lambda environment.
    pub fn freeze_at_commit(&self) {
        self.wire.freeze.store(true, Ordering::Relaxed);
    }
}

impl Wire {
    /// Counts a message. Returns whether its connection must break instead.
    fn count(&self, kind: Option<u8>, bytes: u64) -> bool {
        let sent = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // `Q` is a statement as text, and `S` is the end of a request of several messages.
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

/// Forwards both directions of a connection until one of them ends.
async fn forward(sink: TcpStream, server: u16, wire: &Wire) -> io::Result<()> {
    let server = connect(&sink, server).await?;
    let (from_sink, to_sink) = sink.into_split();
    let (from_server, to_server) = server.into_split();
    let silence = Notify::new();
    // The direction that ends first ends both.
    tokio::select! {
        ended = forward_requests(from_sink, to_server, wire, &silence) => ended,
        ended = forward_replies(from_server, to_sink, &silence) => ended,
    }
}

/// Forwards the messages of the sink, one by one.
/// Source: <https://www.postgresql.org/docs/current/protocol-message-formats.html> (2026-08).
async fn forward_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    wire: &Wire,
    silence: &Notify,
) -> io::Result<()> {
    let mut outcome = StoreOutcome::Normal;
    // The first message has no type.
    let length = from.read_u32().await?;
    wire.count(None, u64::from(length));
    forward_message(&mut from, &mut to, None, length).await?;
    loop {
        let kind = from.read_u8().await?;
        let length = from.read_u32().await?;
        if wire.count(Some(kind), 1 + u64::from(length)) {
            return Ok(());
        }
        if kind != b'Q' {
            forward_message(&mut from, &mut to, Some(kind), length).await?;
            continue;
        }
        let mut text = vec![0; (length as usize).saturating_sub(4)];
        from.read_exact(&mut text).await?;
        if text.starts_with(b"BEGIN") {
            outcome = wire.errors.next();
            if outcome == StoreOutcome::FailsBeforeStoring {
                return Ok(());
            }
        }
        if text.starts_with(b"COMMIT") {
            if wire.freeze.swap(false, Ordering::Relaxed) {
                return std::future::pending().await;
            }
            if outcome == StoreOutcome::FailsAfterStoring {
                silence.notify_one();
            }
        }
        to.write_u8(kind).await?;
        to.write_u32(length).await?;
        to.write_all(&text).await?;
    }
}

/// Forwards one message, of which `from` has only the rest after its length.
async fn forward_message(
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

/// Forwards the replies of the server. Once `silence` is notified, ends instead of forwarding the next reply, which is the
/// one to the commit.
async fn forward_replies(
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
        // The notification is sent before the commit is forwarded, so it comes before the reply to the commit.
        let silent = std::pin::pin!(silence.notified()).enable();
        if silent {
            return Ok(());
        }
        to.write_all(&piece[..read]).await?;
    }
}
