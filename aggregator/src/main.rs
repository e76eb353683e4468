//! The executable of the aggregator Lambda function.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    aggregator::run().await
}
