//! The trait of every sink, and what a delivery returns.

use std::time::Duration;

use async_trait::async_trait;
use protocol::seqs::SeqSet;

use forms::LayoutFailed;
use forms::Part;
use forms::Reject;

/// A sink's confirmation of a stored part.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// A text of the sink about the part, for example a hash. The batch record keeps it.
    pub text: String,
    /// The seqs of the records that are only in a reject list. They must be the same at every attempt. Their events do not count
    /// as delivered.
    pub rejected: SeqSet,
    /// The path of the file with the records, below the sink, if answers may name the part by it.
    pub file: Option<String>,
}

impl Receipt {
    /// Returns the receipt of a part without rejected records.
    pub fn new(text: impl Into<String>) -> Receipt {
        Receipt {
            text: text.into(),
            rejected: SeqSet::new(),
            file: None,
        }
    }

    /// Returns the receipt of a part whose `rejects` are only in a reject list.
    pub fn with_rejects(text: impl Into<String>, rejects: &[Reject]) -> Receipt {
        Receipt {
            text: text.into(),
            rejected: rejects.iter().map(|reject| reject.seq).collect(),
            file: None,
        }
    }
}

/// Why a part was not delivered.
///
/// A log line has the reason without what stands between `«` and `»`. Put there what may come from a body, such as a response
/// of the destination; the batch record keeps it.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The delivery failed, or its result is unknown. The batch processor delivers the same part again, with the same key.
    #[error("sink failed, a retry follows: {reason}")]
    Retryable {
        /// The problem, for the log and the batch record.
        reason: String,
    },
    /// As [`Retryable`](Self::Retryable), and the sink said how long to wait before the next attempt.
    #[error("sink is busy, a retry follows in `{}` s: {reason}", retry_after.as_secs())]
    Busy {
        /// The problem, for the log and the batch record.
        reason: String,
        /// The shortest wait before the next attempt.
        retry_after: Duration,
    },
    /// No retry can succeed. The batch goes into `error` and waits for an operator.
    #[error("sink refused the part, no retry follows: {reason}")]
    Permanent {
        /// The problem, for the log and the batch record.
        reason: String,
    },
}

impl SinkError {
    /// Returns the problem, without what follows from it.
    pub fn into_reason(self) -> String {
        match self {
            SinkError::Retryable { reason }
            | SinkError::Busy { reason, .. }
            | SinkError::Permanent { reason } => reason,
        }
    }

    /// Returns the error of a delivery that a retry may repair.
    pub(crate) fn retryable(reason: String) -> SinkError {
        SinkError::Retryable { reason }
    }

    /// Returns the error of a part that no retry can deliver.
    pub(crate) fn permanent(reason: String) -> SinkError {
        SinkError::Permanent { reason }
    }
}

/// A destination of parts.
///
/// The batch processor may call `deliver` again with the same part: after an error, after a crash, or in another process
/// at the same time. The same key always means the same content. A sink returns `Ok` only when it has stored the part
/// durably.
///
/// # Examples
///
/// A sink that writes each part to a file named after the part's key. A second attempt writes the same file again, so
/// each part exists once:
///
/// ```
/// use std::path::PathBuf;
/// use std::{fs, io};
///
/// use sinks::{Part, Receipt, Sink, SinkError, async_trait};
///
/// struct Directory(PathBuf);
///
/// impl Directory {
///     fn write(&self, part: &Part) -> io::Result<()> {
///         let name = part.key().replace('/', ".");
///         let bodies: String = part.items.iter().map(|item| format!("{}\n", item.body)).collect();
///         // A reader must never see half of a part: the file is renamed only when it is complete.
///         let unfinished = self.0.join(format!("{name}.unfinished.{}", std::process::id()));
///         fs::write(&unfinished, bodies)?;
///         fs::rename(&unfinished, self.0.join(name))
///     }
/// }
///
/// #[async_trait]
/// impl Sink for Directory {
///     fn fingerprint(&self) -> String {
///         format!("bodies in {}", self.0.display())
///     }
///
///     async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
///         match self.write(part) {
///             Ok(()) => Ok(Receipt::new(format!("{} records", part.items.len()))),
///             // An operator can free space on a full disk, so a later attempt may succeed.
///             Err(error) => Err(SinkError::Retryable { reason: error.to_string() }),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let sink = Directory(directory.path().to_owned());
/// # let part = Part {
/// #     batch_id: "0190163d-8694-739b-aea5-966c26f8ad91".parse()?,
/// #     part_index: 0,
/// #     source: "arn:aws:sqs:eu-west-1:123456789012:orders".parse()?,
/// #     batch_key: None,
/// #     closed_at: protocol::time::Timestamp::EPOCH,
/// #     period: None,
/// #     file_number: None,
/// #     link: None,
/// #     items: Vec::new(),
/// # };
/// # for _ in 0..2 {
/// #     assert_eq!(sink.deliver(&part).await?, Receipt::new("0 records"));
/// # }
/// # assert_eq!(fs::read_dir(directory.path())?.count(), 1);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Returns a readable text, without secrets, that says where parts go and in what format. The batch record keeps its
    /// first [`FINGERPRINT_BYTES_MAX`](protocol::limits::FINGERPRINT_BYTES_MAX) bytes.
    ///
    /// The batch processor stores the fingerprint with each part before it delivers the part. If the stored fingerprint of
    /// an undelivered part differs from the current one, the part is not delivered, and an operator decides. If
    /// configuration can change a sink's destination or content, its fingerprint must change too. Other sinks keep the
    /// default.
    fn fingerprint(&self) -> String {
        "a sink of its own".to_owned()
    }

    /// Returns whether parts need numbers: [`Part::file_number`](crate::Part::file_number), 1, 2, 3 and so on for each source and batch key, without gaps and in
    /// the order of delivery. Then parts of one source and key are delivered one after the other, and a batch in error holds up
    /// those behind it.
    fn needs_sequence(&self) -> bool {
        false
    }

    /// Returns whether parts need links too: [`Part::link`](crate::Part::link). A sink that needs them needs numbers, and its
    /// receipts end with the chain hash of the part ([`with_hash`](protocol::chain::with_hash)).
    fn needs_link(&self) -> bool {
        false
    }

    /// Tries out whether parts can be delivered, without delivering anything. It is called when the service is deployed, and a
    /// failure of either kind is a reason to roll the deployment back.
    async fn dry_run(&self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Delivers a part; returns only when the part is stored, or failed.
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError>;
}

/// Returns the error of a part or a reject list that could not be rendered. Memory may be there later; a layout that cannot be
/// written stays so.
pub(crate) fn render_failed(error: std::io::Error) -> SinkError {
    let reason = error.to_string();
    match LayoutFailed::is_cause_of(&error) {
        true => SinkError::Permanent { reason },
        false => SinkError::Retryable { reason },
    }
}
