//! The simulated sink. It renders parts as the shipped sinks do, and either remembers idempotency keys, or keeps parts
//! under names. A consumer takes the data of a name away once its manifest is written.

use std::time::Duration;

use async_trait::async_trait;
use protocol::chain::with_hash;
use protocol::sequence::SequenceScope;
use shared::ports::Clock;
use sinks::{Part, Receipt, Sink, SinkError, content_hash};

use crate::environment::{Environment, lock};
use crate::ledger::{Brought, Delivered};
use crate::plan::SinkKind;
use crate::world::reports::is_wrong;
use crate::world::{REFUSAL, World};

impl World {
    /// Lets a consumer take away data that has a manifest, with some probability.
    pub fn take_away(&mut self) {
        if !self.strikes(self.plan.faults.take_away) {
            return;
        }
        let mut taken = Vec::new();
        for (key, name) in &mut self.names {
            if name.manifest.is_some() && name.data.take().is_some() {
                name.taken += 1;
                taken.push((key.clone(), name.taken));
            }
        }
        for (key, times) in taken {
            self.note("taken away", || key.clone());
            self.check(crate::checks::p5_a_name_is_taken_once(&key, times));
        }
    }

    /// Puts data under a name that has none. Drops the data if another attempt wrote the manifest since this one looked
    /// for it: docs/sinks.md ("Files and objects") says that nothing is promised about this case.
    fn put_data(&mut self, name: &str, brought: &Brought) -> Result<(), String> {
        let kept = self.names.entry(name.to_owned()).or_default();
        if kept.manifest.is_some() && kept.data.is_none() {
            self.note("data came too late", || name.to_owned());
            return Ok(());
        }
        match &kept.data {
            Some(data) if *data == brought.content.rendered => Ok(()),
            Some(data) => Err(format!("{name} has other data: {data}")),
            None => {
                kept.data = Some(brought.content.rendered.clone());
                Ok(())
            }
        }
    }

    /// Writes the manifest of a name. From now on the part counts as delivered.
    fn put_manifest(&mut self, name: &str, brought: &Brought) -> Result<(), String> {
        let kept = self.names.entry(name.to_owned()).or_default();
        match &kept.manifest {
            Some(manifest) if *manifest == brought.content.rendered => {}
            Some(manifest) => return Err(format!("{name} has another manifest: {manifest}")),
            None => kept.manifest = Some(brought.content.rendered.clone()),
        }
        self.deliver(brought);
        Ok(())
    }
}

impl Environment {
    fn brought(&self, part: &Part) -> Brought {
        let rendered = self.rendering.hash(part).expect("nothing is written");
        let world = lock(&self.world);
        let as_sent = part.items.iter().all(|item| {
            let sent = world.ledger.message(&item.sqs_message_id);
            sent.is_some_and(|sent| {
                sent.body == item.body
                    && sent.attributes == item.attributes
                    && sent.source == part.source
                    && sent.batch_key == part.batch_key
            })
        });
        let items = part.items.iter();
        let wrong = items.clone().filter(|item| is_wrong(&item.body));
        let seats = items.map(|item| (item.event_id.clone(), item.seat_key()));
        Brought {
            key: part.key(),
            batch: part.batch_id,
            part_index: part.part_index,
            scope: SequenceScope {
                source: part.source.clone(),
                batch_key: part.batch_key.clone(),
            },
            content: Delivered {
                hash: content_hash(&part.items),
                count: part.items.len(),
                rendered: rendered.to_hex().to_string(),
                fingerprint: self.fingerprint.clone(),
                file_number: part.file_number,
                link: part.link,
            },
            rejected: wrong.map(|item| item.seq).collect(),
            items: seats.collect(),
            in_order: part.items.is_sorted_by(|one, next| one.seq < next.seq),
            as_sent,
        }
    }

    /// Delivers a part to a sink that remembers idempotency keys.
    async fn deliver_by_key(&self, brought: Brought) -> Result<(), SinkError> {
        let delivered = self.request(move |world| world.deliver(&brought)).await;
        delivered.map_err(|_| failed("after"))
    }

    /// Delivers a part to a sink of names: looks for the manifest first, and writes it last.
    async fn deliver_by_name(&self, brought: Brought) -> Result<(), SinkError> {
        let permanent = |reason| SinkError::Permanent { reason };
        let name = format!("{} {}", brought.content.fingerprint, brought.key);
        let looked_for = name.clone();
        let manifest = self.request(move |world| {
            let kept = world.names.get(&looked_for);
            kept.and_then(|kept| kept.manifest.clone())
        });
        match manifest.await.map_err(|_| failed("before"))? {
            Some(manifest) if manifest == brought.content.rendered => return Ok(()),
            Some(manifest) => return Err(permanent(format!("{name} is {manifest}"))),
            None => {}
        }
        let (data, of_data) = (brought.clone(), name.clone());
        let put = self.request(move |world| world.put_data(&of_data, &data));
        let put = put.await.map_err(|_| failed("with its data"))?;
        put.map_err(permanent)?;
        let announce = self.request(move |world| world.put_manifest(&name, &brought));
        let announced = announce.await.map_err(|_| failed("after"))?;
        announced.map_err(permanent)
    }
}

#[async_trait]
impl Sink for Environment {
    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn needs_sequence(&self) -> bool {
        self.rendering.layout.needs_sequence()
    }

    /// Whatever needs numbers has links too, so that they are tried in as many histories.
    fn needs_link(&self) -> bool {
        self.needs_sequence()
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let (faults, kind) = {
            let mut world = lock(&self.world);
            world.check_not_paused(self.number, part);
            world.check_hours(part);
            world.check_rate(part);
            world.check_period(part);
            (world.plan.faults.clone(), world.plan.sink)
        };
        let brought = self.brought(part);
        let strikes = |rate, kind| lock(&self.world).strikes_as(rate, kind);
        if strikes(faults.sink_refuses, "sink refused") {
            return Err(SinkError::Permanent {
                reason: REFUSAL.to_owned(),
            });
        }
        if strikes(faults.sink_fails_before, "sink failed before") {
            return Err(failed("before"));
        }
        if strikes(faults.sink_hangs, "sink hung") {
            self.sleep(Duration::from_secs(3_600)).await;
            return Err(failed("never"));
        }
        let rejected = brought.rejected.clone();
        let hash = brought.content.chain_hash();
        let receipt = "simulated".to_owned();
        let receipt = hash.map_or(receipt.clone(), |hash| with_hash(&receipt, hash));
        let fails_after = strikes(faults.sink_fails_after, "sink failed after");
        match kind {
            SinkKind::Keys => self.deliver_by_key(brought).await?,
            SinkKind::Names => self.deliver_by_name(brought).await?,
        }
        match fails_after {
            true => Err(failed("after")),
            false => Ok(Receipt {
                rejected,
                ..Receipt::new(receipt)
            }),
        }
    }
}

fn failed(when: &str) -> SinkError {
    SinkError::Retryable {
        reason: format!("simulated, {when} it has the part"),
    }
}
