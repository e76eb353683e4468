//! The ports in memory. They pass the same contract tests as the adapters to AWS.
//!
//! They are exact and immediate. Tests that need faults, lag or lost replies add them around these ports.

mod batch_store;
mod clock;
mod fakes;
mod lock_store;
mod named_items;
mod object_store;
mod overflow_store;
mod queues;

pub use batch_store::MemoryBatchStore;
pub use clock::{ManualClock, SeededEntropy};
pub use fakes::{Fakes, MemoryMetricLog};
pub use lock_store::{MemoryLockStore, Stored};
pub use named_items::MemoryNamedItems;
pub use object_store::MemoryObjectStore;
pub use overflow_store::MemoryOverflowStore;
pub use queues::{MemoryBatchQueue, MemoryNoticeTarget, MemoryQuarantineQueue, MemorySourceQueues};

/// Returns a text that compression makes at most a fifth shorter and that JSON does not escape; the same at every call.
pub fn noise(bytes: usize) -> String {
    let mut state = 1_u64;
    let mut next = || {
        // Knuth's MMIX: <https://en.wikipedia.org/wiki/Linear_congruential_generator>.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'#' + ((state >> 33) % 57) as u8)
    };
    std::iter::repeat_with(&mut next).take(bytes).collect()
}
