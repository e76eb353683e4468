//! `CLOSE_AFTER_IDLE`.

use protocol::batch::Status;

use super::*;

#[tokio::test]
async fn a_batch_whose_key_got_no_event_for_a_while_is_sealed_while_others_go_on() {
    let variables = [("BATCH_KEY", "content"), ("CLOSE_AFTER_IDLE", "60")];
    let aggregator = aggregator_with(&variables);
    invoke(&aggregator, &[("m1", "e1", "a"), ("m2", "e2", "b")]).await;
    aggregator.fakes.clock.advance(Duration::from_secs(50));
    invoke(&aggregator, &[("m3", "e3", "a")]).await;
    let open = |key: &str| {
        let mut records = aggregator.fakes.batch_store.records();
        records.retain(|record| record.batch_key == key.parse().ok());
        let is_open = |record: &&BatchRecord| record.status == Some(Status::Open);
        records.iter().filter(is_open).count()
    };
    assert_eq!((open("a"), open("b")), (1, 1));
    aggregator.fakes.clock.advance(Duration::from_secs(20));
    invoke(&aggregator, &[("m4", "e4", "c")]).await;
    assert_eq!((open("a"), open("b"), open("c")), (1, 0, 1));
    let line = aggregator.fakes.metric_log.take().pop().unwrap();
    assert!(line.contains(r#""FlushedIdle":1"#), "{line}");
}
