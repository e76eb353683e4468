//! The executable of the batch processor Lambda function.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    batch_processor::run().await
}
