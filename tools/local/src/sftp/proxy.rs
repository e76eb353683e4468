//! A proxy between the sink and the SSH server. It cuts connections at random, refuses them while the sink is to be down, and
//! cuts one at a given byte when a test asks for that.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::faults::{SinkCuts, SinkErrors};
use crate::relay::{Relay, connect};

/// What a sink sends after a pause of this length is taken for another delivery.
const PAUSE: Duration = Duration::from_millis(50);
/// A number of bytes that is never reached: no connection is cut.
const NEVER: u64 = u64::MAX;

/// A running proxy. Dropping it stops accepting connections; those that are open stay open.
pub struct Proxy {
    relay: Relay,
    wire: Arc<Wire>,
}

/// The state that all connections of a proxy share.
struct Wire {
    errors: Arc<SinkErrors>,
    connections: AtomicU64,
    /// Bytes that sinks sent, over all connections.
    sent: AtomicU64,
    /// The connection that reaches this sum of bytes is cut.
    cut_at: AtomicU64,
}

impl Proxy {
    /// Starts a proxy in front of the loopback port `server`.
    pub async fn start(server: u16, errors: Arc<SinkErrors>) -> anyhow::Result<Proxy> {
        let wire = Arc::new(Wire {
            errors,
            connections: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            cut_at: AtomicU64::new(NEVER),
        });
        let forward =
            move |sink, wire: Arc<Wire>| async move { forward(sink, server, &wire).await };
        let relay = Relay::start(&wire, forward).await?;
        Ok(Proxy { relay, wire })
    }

    pub fn port(&self) -> u16 {
        self.relay.port()
    }

    /// Returns how many connections sinks made so far.
    pub fn connections(&self) -> u64 {
        self.wire.connections.load(Ordering::Relaxed)
    }

    /// Returns how many bytes sinks sent so far.
    pub fn sent_bytes(&self) -> u64 {
        self.wire.sent.load(Ordering::Relaxed)
    }

    /// Cuts one connection: the one that sends the last of the next `bytes` bytes, counted over all connections. These
    /// bytes still reach the server, and its replies get lost.
    pub fn cut_after(&self, bytes: u64) {
        let at = self.sent_bytes().saturating_add(bytes);
        self.wire.cut_at.store(at, Ordering::Relaxed);
    }
}

impl Wire {
    /// Counts what a sink sent. Returns how much of it reaches the server if the connection is to be cut.
    fn count(&self, bytes: u64) -> Option<u64> {
        let before = self.sent.fetch_add(bytes, Ordering::Relaxed);
        let cut_at = self.cut_at.load(Ordering::Relaxed);
        if before + bytes < cut_at {
            return None;
        }
        self.cut_at.store(NEVER, Ordering::Relaxed);
        Some(cut_at.saturating_sub(before).min(bytes))
    }
}

/// Forwards both directions of a connection until one of them ends.
async fn forward(sink: TcpStream, server: u16, wire: &Wire) -> io::Result<()> {
    wire.connections.fetch_add(1, Ordering::Relaxed);
    if wire.errors.refuses_request() {
        return Ok(());
    }
    let server = connect(&sink, server).await?;
    let (from_sink, mut to_sink) = sink.into_split();
    let (mut from_server, to_server) = server.into_split();
    // The direction that ends first ends both.
    tokio::select! {
        ended = forward_requests(from_sink, to_server, wire) => ended,
        ended = tokio::io::copy(&mut from_server, &mut to_sink) => ended.map(|_| ()),
    }
}

/// Forwards what the sink sends until the connection is cut or ends.
async fn forward_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    wire: &Wire,
) -> io::Result<()> {
    let mut cuts = CutPoints::new(&wire.errors.cuts);
    let mut piece = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 || wire.errors.refuses_request() {
            return Ok(());
        }
        let bytes = read as u64;
        let cut = [wire.count(bytes), cuts.advance(bytes, Instant::now())];
        if let Some(reaching) = cut.into_iter().flatten().min() {
            let reaching = usize::try_from(reaching).unwrap_or(read).min(read);
            return to.write_all(&piece[..reaching]).await;
        }
        to.write_all(&piece[..read]).await?;
    }
}

/// Where one connection is cut. The connection is encrypted, so a delivery is known only by the pause before it.
struct CutPoints<'c> {
    cuts: &'c SinkCuts,
    sent_at: Option<Instant>,
    /// After how many more bytes the connection is cut.
    cut_after: Option<u64>,
}

impl CutPoints<'_> {
    fn new(cuts: &SinkCuts) -> CutPoints<'_> {
        cuts.connections.add(1);
        CutPoints {
            cuts,
            sent_at: None,
            cut_after: None,
        }
    }

    /// Passes `bytes` bytes. Returns how many of them reach the server if the connection is to be cut.
    fn advance(&mut self, bytes: u64, now: Instant) -> Option<u64> {
        let paused = self.sent_at.is_none_or(|at| now - at >= PAUSE);
        self.sent_at = Some(now);
        if paused && self.cut_after.is_none() {
            self.cut_after = self.cuts.next();
        }
        match &mut self.cut_after {
            Some(after) if *after <= bytes => {
                self.cuts.cut.add(1);
                Some(*after)
            }
            Some(after) => {
                *after -= bytes;
                None
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FaultOptions;

    fn cuts(percent: &str) -> SinkErrors {
        SinkErrors::new(&FaultOptions {
            cut_connections: percent.parse().unwrap(),
            ..FaultOptions::default()
        })
    }

    #[test]
    fn a_connection_that_is_to_be_cut_is_cut_within_bounds_and_others_are_not() {
        let now = Instant::now();
        let errors = cuts("100");
        for _ in 0..20 {
            let mut points = CutPoints::new(&errors.cuts);
            let passed = (0..).find(|_| points.advance(1_000, now).is_some());
            assert!(passed.unwrap() * 1_000 <= SinkCuts::BYTES_MAX);
        }
        let errors = cuts("0");
        let mut points = CutPoints::new(&errors.cuts);
        assert_eq!(points.advance(10 * SinkCuts::BYTES_MAX, now), None);
    }

    #[test]
    fn each_delivery_is_drawn_once() {
        let errors = cuts("50");
        let mut points = CutPoints::new(&errors.cuts);
        let now = Instant::now();
        // Without a pause nothing is drawn anew, so the first draw decides about any number of bytes.
        points.cut_after = None;
        points.sent_at = Some(now);
        assert!((0..1_000).all(|_| points.advance(1_000, now).is_none()));
        let mut later = (1..1_000).map(|delivery| now + delivery * PAUSE);
        assert!(later.any(|at| points.advance(1 << 20, at).is_some()));
    }
}
