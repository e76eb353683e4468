use loadgen::planner::*;
fn show(name: &str, s: &Settings) -> Plan {
    let t = std::time::Instant::now();
    let p = plan(s);
    println!("{name}: {:?} claimed {:.1} delivered {:.1} drained {:.1} {} batches {} full {} sealed | agg {} proc {} n/inv {:.0} returned {} dead {} inflight {} binds {:?} held {:?}", t.elapsed(), p.claimed_secs, p.delivered_secs, p.drained_secs, p.batches, p.full, p.sealed_drained, p.aggregators_most, p.processors_most, p.messages_per_invocation, p.returned, p.dead_letters, p.in_flight_most, p.binds(), p.held_up);
    p
}
fn local() -> Settings {
    let mut s = Settings::default();
    s.input.scaling = Scaling::Local(2);
    s.input.batch_size = 5000;
    s.input.receive_rate = 30_000.0;
    s.input.visibility_secs = 61.0;
    s.aggregator.timeout_secs = 10.0;
    s.processor.timeout_secs = 30.0;
    s.batches.window_secs = 5.0;
    s.batches.verify_delay_secs = Some(2.0);
    s.requests.concurrency = 8;
    s.requests.control_secs = 0.005;
    s.tables.key = None;
    s.tables.lock = 1e9; s.tables.batch = 1e9; s.tables.quota=1e9;
    s.tables.index_lag_secs = 0.0;
    s.sink.secs_per_part = 0.1;
    s.sink.bytes_per_sec = 1e9;
    s.aggregator.cold_start_secs = 0.05;
    s.processor.cold_start_secs = 0.05;
    s.aggregator.micros_per_message = 200.0;
    s.processor.micros_per_message = 200.0;
    s
}
fn main() {
    let mut s = Settings::default();
    show("default", &s);
    s.burst.messages = 10_000_000;
    show("10M", &s);
    s.input.scaling = Scaling::Provisioned { min: 2, max: 200 };
    show("10M prov", &s);
    let mut l = local(); l.burst.messages = 20_000; l.burst.shape = Shape::Constant { rate: 1000.0 };
    show("rate1k  (20.5 36.6 4)", &l);
    let mut l = local(); l.burst.messages = 20_000; l.tables.lock = 1000.0; l.tables.batch = 1000.0; l.tables.quota=1000.0; l.burst.shape = Shape::Constant { rate: 10000.0 };
    show("tlimit1k (133 150.8 10)", &l);
}
