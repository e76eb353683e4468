//! What a fault does to a request to store something.

/// What a server does with a request to store something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// Handles the request without a fault.
    Normal,
    /// Returns an error, such as status 503, and stores nothing.
    FailsBeforeStoring,
    /// Stores the content, and returns an error.
    FailsAfterStoring,
}
