//! Invocations without tickets.

use protocol::ids::{BatchShard, SeatKey};
use shared::ports::{ClaimReply, IndexEntry, IndexPage, PortError, ReleaseReply, StoredEvent};

use super::*;

async fn dry_run(processor: &Processor) -> Result<Response, HandlerError> {
    let event = serde_json::from_value(json!({ "Records": [] })).unwrap();
    let invocation = invocation(processor);
    processor.handler.handle(event, &invocation).await
}

#[tokio::test]
async fn an_event_without_tickets_tries_out_the_sink_and_changes_nothing() {
    let processor = a_processor();
    let response = Response::Tickets(SqsBatchResponse::default());
    assert_eq!(dry_run(&processor).await.unwrap(), response);
    assert!(processor.fakes.batch_store.records().is_empty());
    assert!(processor.fakes.lock_store.items().is_empty());
    assert!(delivered(&processor).is_empty());

    *processor.sink.dry_run_fails.lock().unwrap() = true;
    let error = dry_run(&processor).await.unwrap_err();
    assert!(matches!(error, HandlerError::DryRun(_)), "{error}");
    assert_eq!(error.to_string(), "dry run: sink: no way");
}

/// A lock table in which nothing may be deleted.
struct WithoutDeletes(Arc<dyn LockStore>);

#[async_trait]
impl LockStore for WithoutDeletes {
    fn items_per_request(&self) -> usize {
        self.0.items_per_request()
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<ClaimReply> {
        self.0.claim(claims).await
    }

    async fn replace(&self, claim: &Claim, expected: &LockItem) -> ClaimReply {
        self.0.replace(claim, expected).await
    }

    async fn read(&self, ids: &[EventId]) -> Result<Vec<Option<LockItem>>, PortError> {
        self.0.read(ids).await
    }

    async fn read_events(
        &self,
        ids: &[EventId],
    ) -> Result<(Vec<StoredEvent>, Vec<EventId>), PortError> {
        self.0.read_events(ids).await
    }

    async fn release(&self, claims: &[(EventId, SeatKey)], release: Release) -> Vec<ReleaseReply> {
        if release != Release::Deleted {
            return self.0.release(claims, release).await;
        }
        let forbidden = || PortError::Refused {
            service: "DynamoDB",
            message: "AccessDeniedException: no".to_owned(),
        };
        let replies = claims.iter().map(|_| ReleaseReply::Error(forbidden()));
        replies.collect()
    }

    async fn mark_rejected(
        &self,
        id: &EventId,
        message: &protocol::ids::SqsMessageId,
        seat: SeatKey,
        until: Timestamp,
    ) -> Result<(), PortError> {
        self.0.mark_rejected(id, message, seat, until).await
    }

    async fn index(
        &self,
        shard: BatchShard,
        after: Option<&IndexEntry>,
    ) -> Result<IndexPage, PortError> {
        self.0.index(shard, after).await
    }

    async fn has_items(&self) -> Result<bool, PortError> {
        self.0.has_items().await
    }
}

#[tokio::test]
async fn an_event_without_tickets_tries_out_the_release_that_the_window_asks_for() {
    for (window, is_forbidden) in [(0, true), (3_600, false)] {
        let fakes = Fakes::at(START);
        let ports = Ports {
            lock_store: Arc::new(WithoutDeletes(fakes.lock_store.clone())),
            ..fakes.ports()
        };
        let mut config = config();
        config.common.dedup_window = Duration::from_secs(window);
        let sink = Arc::new(TestSink::default());
        let processor = Processor {
            handler: Handler::new(config, ports, sink.clone()),
            fakes,
            sink,
        };
        match dry_run(&processor).await {
            Ok(_) => assert!(!is_forbidden, "window of {window} s"),
            Err(error) => {
                assert!(is_forbidden, "{error}");
                assert!(error.to_string().contains("AccessDenied"), "{error}");
            }
        }
    }
}
