//! Reads events whose bodies are in loads of the log.

use protocol::batch::{BatchRecord, Resolution};
use protocol::ids::Seq;
use protocol::seqs::SeqSet;
use protocol::slot::{Slot, frames_of};
use shared::body_object::BodyObject;
use shared::ports::StoredEvent;
use shared::retry::Slots;

use crate::commands::views::undecided_seats;
use crate::failure::Failure;
use crate::service::Service;

/// Returns the values that the slots of a batch have now.
///
/// # Errors
/// A service could not be asked.
pub async fn slots(service: &Service, record: &BatchRecord) -> Result<Vec<Option<Slot>>, Failure> {
    let slots = Slots {
        store: &*service.object_store,
        permits: &service.permits,
        budget: &service.budget(),
    };
    Ok(slots.values(record).await?)
}

/// Returns the frames with the events in these seats of a batch of the log, with the seats of each. Seats of lines that are lost or
/// were never brought have none.
///
/// # Errors
/// A service could not be asked.
pub async fn objects(
    service: &Service,
    record: &BatchRecord,
    seqs: &SeqSet,
) -> Result<Vec<(BodyObject, SeqSet)>, Failure> {
    let slots = slots(service, record).await?;
    Ok(BodyObject::of_frames(frames_of(&slots), seqs))
}

/// Returns why some of `seqs` are in none of the objects; `None` if each is in one.
pub fn lost_slots(seqs: &SeqSet, objects: &[(BodyObject, SeqSet)]) -> Option<String> {
    let mut lost = seqs.clone();
    for (_, in_object) in objects {
        lost.remove_from(in_object);
    }
    let first = lost.iter().next()?;
    let (lost, all) = (lost.len(), seqs.len());
    Some(format!(
        "slots: lost: got none for {lost} of {all} events, the first of seq {first}"
    ))
}

/// Returns the seats of all lines of a batch of the log, if they are not decided.
pub fn unresolved(record: &BatchRecord) -> SeqSet {
    (0..undecided_seats(record).unwrap_or_default() as Seq).collect()
}

/// Returns the seats of lines that did not win and are not in the quarantine yet, although they go there.
pub fn unreported(record: &BatchRecord) -> SeqSet {
    let reservations = record.reservations.as_ref();
    let resolution = reservations.and_then(|one| one.resolution.as_ref());
    let unreported = resolution.filter(|resolution| !resolution.is_reported);
    unreported.map_or_else(SeqSet::new, Resolution::quarantined)
}

/// Reads the events of an object in the wanted seats, in seq order. Returns them, and why some are missing.
///
/// # Errors
/// A service could not be asked.
pub async fn read(
    service: &Service,
    record: &BatchRecord,
    object: &BodyObject,
    wanted: &SeqSet,
) -> Result<(Vec<StoredEvent>, Option<String>), Failure> {
    let (store, budget) = (&*service.object_store, service.budget());
    let place = object.place();
    let bytes = object.read(store, &service.permits, &budget).await?;
    Ok(match bytes {
        Some(bytes) => object.decode(record, &bytes, wanted),
        None => {
            let problem = format!("{}: missing in `{place}`", object.described());
            (Vec::new(), Some(problem))
        }
    })
}

/// Reads the events in these seats, object by object. Returns why some are missing.
///
/// # Errors
/// A service could not be asked.
pub async fn read_each(
    service: &Service,
    record: &BatchRecord,
    seqs: &SeqSet,
    mut each: impl FnMut(StoredEvent),
) -> Result<Vec<String>, Failure> {
    let objects = objects(service, record, seqs).await?;
    let mut problems = Vec::from_iter(lost_slots(seqs, &objects));
    for (object, wanted) in objects {
        let (events, problem) = read(service, record, &object, &wanted).await?;
        problems.extend(problem);
        events.into_iter().for_each(&mut each);
    }
    Ok(problems)
}

/// Reads the events in these seats, in seq order.
///
/// # Errors
/// [`Failure::Refused`] if some are missing or damaged.
pub async fn events_of(
    service: &Service,
    record: &BatchRecord,
    seqs: &SeqSet,
) -> Result<Vec<StoredEvent>, Failure> {
    let mut events = Vec::with_capacity(seqs.len() as usize);
    let problems = read_each(service, record, seqs, |event| events.push(event)).await?;
    if let Some(problem) = problems.first() {
        return Err(Failure::Refused(format!(
            "{problem}; loads are kept for 40 days"
        )));
    }
    events.sort_unstable_by_key(|event| event.seq);
    Ok(events)
}

#[cfg(test)]
mod tests {
    use protocol::bodies::{Bodies, ObjectPlace};
    use protocol::slot::Frame;
    use protocol::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn events_whose_slot_is_lost_are_counted() {
        let frame = Frame {
            load: Uuid::nil(),
            bodies: Bodies::Log(ObjectPlace::Table),
            bytes: 0..9,
            lines: 0..2,
            first_seq: 0,
            stored_at: Timestamp::EPOCH,
            hash: [0; 16],
        };
        let seqs: SeqSet = (0..4).collect();
        let objects = BodyObject::of_frames([&frame], &seqs);
        let problem = lost_slots(&seqs, &objects).unwrap();
        let words = "slots: lost: got none for 2 of 4 events, the first of seq 2";
        assert_eq!(problem, words);
        assert_eq!(lost_slots(&(0..2).collect(), &objects), None);
    }
}
