//! The contract of the store of objects.

use aws::{DynamoObjectStore, S3ObjectStore};
use emulators::s3::S3;
use protocol::bodies::{Bodies, ObjectPlace, ObjectSizes, S3Prefix};
use protocol::ids::{ObjectId, PieceId};
use protocol::limits::{BATCH_GET_KEYS_MAX, OBJECT_ITEM_BYTES_MAX};
use protocol::time::Timestamp;
use shared::memory::{MemoryObjectStore, noise};
use shared::ports::{ObjectReply, ObjectStore, Piece, PiecesRead};
use uuid::Uuid;

use crate::dynamo::{batch_table, dynamodb};
use crate::events::assert_says;
use crate::overflow::s3_client;

const EXPIRES_AT: Timestamp = Timestamp::from_ms(4_000_000_000_000);

/// Returns the name of a piece of load `number`.
fn id(number: u32, index: u32) -> PieceId {
    let object = ObjectId::Load(Uuid::from_u128(number.into()));
    PieceId { object, index }
}

fn piece(bytes: usize, pieces_count: u32) -> Piece {
    Piece {
        bytes: noise(bytes).into_bytes(),
        pieces_count,
    }
}

async fn a_piece_is_written_once_and_read_back(store: &dyn ObjectStore, place: &ObjectPlace) {
    let put = async |id, piece: &Piece| store.put(place, id, piece, EXPIRES_AT).await.unwrap();
    assert_eq!(store.get(place, id(0, 0)).await.unwrap(), None);
    for (number, bytes) in [(0, 100), (7, OBJECT_ITEM_BYTES_MAX)] {
        let piece = piece(bytes, 1);
        assert_eq!(put(id(number, 0), &piece).await, ObjectReply::Stored);
        let read = store.get(place, id(number, 0)).await.unwrap();
        assert!(read == Some(piece.clone()), "load {number} reads back");
        assert_eq!(put(id(number, 0), &piece).await, ObjectReply::Exists);
    }
    assert_eq!(put(id(0, 0), &piece(5, 1)).await, ObjectReply::Exists);
    let kept = store.get(place, id(0, 0)).await.unwrap();
    assert_eq!(kept, Some(piece(100, 1)), "the first bytes stay");
    assert_eq!(store.get(place, id(1, 0)).await.unwrap(), None);
}

/// Only an object in the table has several pieces.
async fn pieces_are_apart_and_the_first_says_how_many_there_are(store: &dyn ObjectStore) {
    let place = &ObjectPlace::Table;
    for index in [2, 1, 0] {
        assert_eq!(store.get(place, id(9, 0)).await.unwrap(), None);
        let piece = piece(10 + index as usize, 3);
        let put = store.put(place, id(9, index), &piece, EXPIRES_AT);
        assert_eq!(put.await.unwrap(), ObjectReply::Stored);
    }
    let first = store.get(place, id(9, 0)).await.unwrap();
    assert_eq!(first, Some(piece(10, 3)));
    let second = store.get(place, id(9, 1)).await.unwrap();
    assert_eq!(second.unwrap().bytes, piece(11, 3).bytes);
}

async fn pieces_in_the_table_are_read_together(store: &dyn ObjectStore) {
    let mut expected = PiecesRead::new();
    for number in 40..90 {
        let piece = piece(number as usize, 1);
        let put = store.put(&ObjectPlace::Table, id(number, 0), &piece, EXPIRES_AT);
        assert_eq!(put.await.unwrap(), ObjectReply::Stored);
        expected.insert(id(number, 0), Some(piece));
    }
    let missing = 90..40 + BATCH_GET_KEYS_MAX as u32;
    expected.extend(missing.map(|number| (id(number, 0), None)));
    let ids: Vec<PieceId> = expected.keys().copied().collect();
    assert_eq!(store.get_from_table(&ids).await.unwrap(), expected);
    assert_eq!(store.get_from_table(&[]).await.unwrap(), PiecesRead::new());
}

async fn bytes_of_an_object_in_s3_are_read_alone(store: &dyn ObjectStore, place: &ObjectPlace) {
    let prefix = &in_s3(place);
    let whole = piece(100, 1);
    let put = store.put(place, id(30, 0), &whole, EXPIRES_AT).await;
    assert_eq!(put.unwrap(), ObjectReply::Stored);
    let read = async |number, range| {
        let read = store.get_range(prefix, id(number, 0).object, &range);
        read.await.unwrap()
    };
    assert_eq!(read(30, 0..100).await.as_ref(), Some(&whole.bytes));
    assert_eq!(read(30, 7..9).await.unwrap(), whole.bytes[7..9]);
    assert_eq!(read(30, 90..101).await.unwrap(), whole.bytes[90..]);
    assert_eq!(read(30, 100..101).await.unwrap(), [0; 0]);
    assert_eq!(read(31, 7..9).await, None);
}

#[tokio::test]
async fn a_piece_is_written_once_and_read_back_in_memory() {
    let store = MemoryObjectStore::new();
    bytes_of_an_object_in_s3_are_read_alone(&store, &bucket("s3://loads/a")).await;
    a_piece_is_written_once_and_read_back(&store, &ObjectPlace::Table).await;
    pieces_are_apart_and_the_first_says_how_many_there_are(&store).await;
    pieces_in_the_table_are_read_together(&store).await;
}

async fn table() -> DynamoObjectStore {
    let client = dynamodb();
    let table = batch_table(&client).await;
    DynamoObjectStore::new(client, table)
}

#[tokio::test]
async fn a_piece_is_written_once_and_read_back_in_the_table() {
    let store = table().await;
    a_piece_is_written_once_and_read_back(&store, &ObjectPlace::Table).await;
    pieces_are_apart_and_the_first_says_how_many_there_are(&store).await;
    pieces_in_the_table_are_read_together(&store).await;
}

fn in_s3(place: &ObjectPlace) -> S3Prefix {
    match place {
        ObjectPlace::S3(prefix) => prefix.clone(),
        ObjectPlace::Table => panic!("expected a place in S3"),
    }
}

/// Returns the place of large loads below this prefix of a bucket.
fn bucket(prefix: &str) -> ObjectPlace {
    let bodies: Bodies = format!("log:{prefix}").parse().unwrap();
    bodies.place_of_object(usize::MAX, ObjectSizes::default())
}

#[tokio::test]
async fn a_build_without_s3_says_so() {
    let store = table().await;
    let place = bucket("s3://loads/a");
    let (prefix, piece) = (in_s3(&place), piece(10, 1));
    let put = store.put(&place, id(0, 0), &piece, EXPIRES_AT).await;
    let got = store.get(&place, id(0, 0)).await;
    let got_range = store.get_range(&prefix, id(0, 0).object, &(0..1)).await;
    for error in [put.unwrap_err(), got.unwrap_err(), got_range.unwrap_err()] {
        assert_says(&error, &["refused by", "cargo feature `full`"]);
    }
}

#[tokio::test]
async fn a_piece_is_written_once_and_read_back_on_s3() {
    let directory = tempfile::tempdir().unwrap();
    let s3 = S3::start(directory.path().to_owned()).await.unwrap();
    s3.create_bucket("loads");
    let store = S3ObjectStore::of(s3_client(&s3), table().await);
    a_piece_is_written_once_and_read_back(&store, &bucket("s3://loads/a")).await;
    let mut stored: Vec<String> = std::fs::read_dir(directory.path().join("loads/a"))
        .unwrap()
        .flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap())
        .map(|object| object.unwrap().file_name().into_string().unwrap())
        .collect();
    stored.sort();
    let names = [0, 7].map(|number| Uuid::from_u128(number).to_string());
    assert_eq!(stored, names);
    bytes_of_an_object_in_s3_are_read_alone(&store, &bucket("s3://loads/b")).await;
    pieces_in_the_table_are_read_together(&store).await;
    let nowhere = bucket("s3://nowhere/a");
    let piece = piece(9_000, 1);
    let put = store.put(&nowhere, id(20, 0), &piece, EXPIRES_AT).await;
    assert_says(&put.unwrap_err(), &["refused by", "s3://nowhere/a/"]);
    let read = store.get(&nowhere, id(20, 0)).await.unwrap();
    assert_eq!(read, None, "a bucket that is gone has no load");
}
