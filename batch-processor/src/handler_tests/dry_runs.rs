//! Invocations without tickets.

use super::*;

async fn dry_run(processor: &Processor) -> Result<Response, HandlerError> {
    let event = serde_json::from_value(json!({ "Records": [] })).unwrap();
    let invocation = Invocation {
        function: "batch-processor".to_owned(),
        request_id: "r".to_owned(),
        deadline: processor.fakes.clock.now() + Duration::from_secs(60),
    };
    processor.handler.handle(event, &invocation).await
}

#[tokio::test]
async fn an_event_without_tickets_tries_out_the_sink_and_changes_nothing() {
    let processor = a_processor();
    assert_eq!(
        dry_run(&processor).await.unwrap(),
        Response::Tickets(SqsBatchResponse::default())
    );
    assert!(processor.fakes.batch_store.records().is_empty());
    assert!(processor.fakes.lock_store.items().is_empty());
    assert!(delivered(&processor).is_empty());

    *processor.sink.dry_run_fails.lock().unwrap() = true;
    let error = dry_run(&processor).await.unwrap_err();
    assert!(matches!(error, HandlerError::DryRun(_)), "{error}");
    assert_eq!(error.to_string(), "dry run: sink: no way");
}
