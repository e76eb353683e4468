//! Merges of runs.

use protocol::bodies::Bodies;
use protocol::limits::{RUN_ENTRIES_MAX, RUNS_MAX, RUNS_OF_ONE_SIZE_MAX};
use protocol::log::{Entry, IdHash, Merged, NO_BODY, Owner, RunList};
use shared::index::IndexStore;
use shared::ports::{ObjectReply, PiecesRead, PortError, Ports};
use shared::retry::{Budget, RequestPermits};

use super::*;
use crate::log_index::LogIndex;

const HOUR: Duration = Duration::from_secs(3_600);

/// The runs of [`crowded`] that a merge takes.
const CROWDED: usize = RUNS_OF_ONE_SIZE_MAX + 1;

fn bodies() -> Bodies {
    "log:table".parse().unwrap()
}

/// Makes an index with `others` and as many runs of one entry as are merged.
async fn crowded(fakes: &Fakes, others: impl Iterator<Item = RunRef>) {
    let (ports, permits) = (fakes.ports(), RequestPermits::new(1));
    let budget = Budget::new(&ports, START + HOUR);
    let store = IndexStore {
        objects: &*ports.object_store,
        named_items: &*ports.named_items,
        permits: &permits,
        budget: &budget,
    };
    let mut runs: Vec<RunRef> = others.collect();
    for number in 0..CROWDED as u128 {
        let entry = Entry {
            id: IdHash::new(number),
            owner: 0,
            seq: 0,
            message: 0,
            body: NO_BODY,
        };
        let until = START + HOUR;
        let run = Merged {
            owners: vec![Owner::Primed { until }],
            entries: vec![entry],
            ..Merged::default()
        };
        runs.extend(store.store_merged(&bodies(), run).await.unwrap());
    }
    let list = RunList {
        runs,
        ..RunList::default()
    };
    let open = store.open(&bodies()).await.unwrap();
    assert!(store.commit(&open, &bodies(), &list).await.unwrap());
}

#[tokio::test]
async fn a_list_that_is_full_is_merged_when_a_batch_fails_and_takes_its_next_attempt() {
    let processor = a_processor();
    // No line needs it any more, and no merge takes so large a run. So its object need not exist.
    let at = START.saturating_sub(HOUR);
    let ended = RunRef {
        run: uuid::Uuid::nil(),
        hash: [0; 16],
        bodies: bodies(),
        entries: RUN_ENTRIES_MAX,
        ends_at: at,
        events_end_at: at,
        tallies_end_at: Timestamp::EPOCH,
        rows: 1,
        batch: None,
    };
    let others = (CROWDED..RUNS_MAX).map(|number| RunRef {
        run: uuid::Uuid::from_u128(number as u128),
        ..ended.clone()
    });
    crowded(&processor.fakes, others).await;
    brought(&processor, 0, &[&[("m1", "a", "1")]]).await;
    assert!(!ticket_of(&processor, 0).await);
    let error = record(&processor).error.unwrap();
    assert!(error.contains("merges do not keep up"), "{error}");
    assert!(!given_back(&processor, &operator()).await);
    assert_eq!(given(&processor), ["a"]);
}

/// Objects whose first read of a run takes so long that another commit comes first.
struct Raced {
    fakes: Fakes,
    is_raced: Mutex<bool>,
    stored: Mutex<Vec<ObjectId>>,
}

#[async_trait]
impl ObjectStore for Raced {
    async fn put(
        &self,
        place: &ObjectPlace,
        id: PieceId,
        piece: &Piece,
        expires_at: Timestamp,
    ) -> Result<ObjectReply, PortError> {
        self.stored.lock().unwrap().push(id.object);
        let store = &self.fakes.object_store;
        store.put(place, id, piece, expires_at).await
    }

    async fn get(&self, place: &ObjectPlace, id: PieceId) -> Result<Option<Piece>, PortError> {
        let is_run = matches!(id.object, ObjectId::Run(_));
        let is_raced = is_run && std::mem::take(&mut *self.is_raced.lock().unwrap());
        if is_raced {
            let items: &dyn NamedItems = &*self.fakes.named_items;
            let epoch = items.get::<IndexEpoch>(&()).await?.value.epoch;
            let manifest = items.get::<Manifest>(&epoch).await?;
            let replaced = items.replace(&epoch, &manifest, &manifest.value).await?;
            assert!(replaced);
        }
        self.fakes.object_store.get(place, id).await
    }

    async fn get_from_table(&self, ids: &[PieceId]) -> Result<PiecesRead, PortError> {
        self.fakes.object_store.get_from_table(ids).await
    }
}

#[tokio::test]
async fn a_merge_stores_nothing_if_another_commit_came_first() {
    for (is_raced, stored) in [(false, 2), (true, 0)] {
        let fakes = Fakes::at(START);
        crowded(&fakes, std::iter::empty()).await;
        let objects = Arc::new(Raced {
            fakes: fakes.clone(),
            is_raced: Mutex::new(is_raced),
            stored: Mutex::default(),
        });
        let ports = Ports {
            object_store: objects.clone(),
            ..fakes.ports()
        };
        let index = LogIndex::new(&ports, Arc::new(RequestPermits::new(1)), 0);
        let budget = Budget::new(&ports, START + HOUR);
        index.merge(&bodies(), &budget).await.unwrap();
        let objects = objects.stored.lock().unwrap();
        assert_eq!(objects.len(), stored, "a run and a list: {objects:?}");
    }
}
