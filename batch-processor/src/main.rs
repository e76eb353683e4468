//! The executable of the batch-processor.

/// With the system's allocator, a message takes about a fifth more CPU.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    batch_processor::run().await
}
