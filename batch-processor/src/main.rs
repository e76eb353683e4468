//! The executable of the batch processor Lambda function.

/// The system's allocator takes about a fifth more CPU a message.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    batch_processor::run().await
}
