//! The size of items: compression and overflow.

use std::sync::Arc;

use super::*;
use crate::limits::{
    CLAIM_OVERHEAD_BYTES, DYNAMODB_ITEM_BYTES_MAX, OVERFLOW_BYTES, WRITE_UNIT_BYTES,
};

/// Returns a candidate whose item has this size.
fn candidate_of(bytes: usize) -> Candidate {
    let without_body = CLAIM_OVERHEAD_BYTES + "event".len() + "m1".len() + "arn:q".len();
    message("m1", &"a".repeat(bytes - without_body))
}

/// A compression that returns this many bytes for any body.
fn to_bytes(bytes: usize) -> impl FnOnce(&str) -> Option<Vec<u8>> {
    move |_| Some(vec![0; bytes])
}

#[test]
fn the_size_of_an_item_counts_everything_it_stores() {
    let mut candidate = candidate_of(1_000);
    assert_eq!(candidate.item_bytes(), 1_000);
    candidate.attributes = Some("{\"a\":1}".into());
    assert_eq!(candidate.item_bytes(), 1_007);
    candidate.compressed = Some([0; 10].into());
    assert_eq!(candidate.content_bytes(), candidate.body.len() + 7);
    let without_body = 1_007 - candidate.body.len();
    assert_eq!(candidate.item_bytes(), without_body + 10);
    let claim = |overflow| Claim {
        candidate: candidate.clone(),
        seat: seat(1, 3),
        overflow,
        past: PastDeliveries::new(),
    };
    assert_eq!(claim(None).item_bytes(), without_body + 10);
    let overflow = Overflow {
        bucket: "bucket".into(),
        key: "key".to_owned(),
        bytes: 1_000_000,
    };
    let expected = without_body + OVERFLOW_BYTES + "bucket".len() + "key".len();
    assert_eq!(claim(Some(overflow)).item_bytes(), expected);
}

#[test]
fn a_body_is_compressed_where_that_saves_a_write_unit() {
    let large = candidate_of(2 * WRITE_UNIT_BYTES);
    let saved = large.body.len() - WRITE_UNIT_BYTES;
    let one_unit = large.clone().compressed(to_bytes(saved));
    assert!(one_unit.compressed.is_some());
    assert_eq!(one_unit.item_bytes(), WRITE_UNIT_BYTES);
    let two_units = large.clone().compressed(to_bytes(saved + 1));
    assert_eq!(two_units.compressed, None, "it saves no write unit");
    assert_eq!(large.compressed(|_| None).compressed, None, "no shorter");
}

#[test]
fn an_item_of_one_write_unit_is_left_as_it_is() {
    let one_unit = candidate_of(WRITE_UNIT_BYTES).compressed(|_| panic!("nothing to save"));
    assert_eq!(one_unit.compressed, None);
    let two_units = candidate_of(WRITE_UNIT_BYTES + 1).compressed(to_bytes(0));
    assert!(two_units.compressed.is_some());
}

#[test]
fn a_body_that_fits_no_item_is_stored_under_the_key_of_its_seat() {
    let bucket: Arc<str> = "bodies".into();
    let fits = candidate_of(DYNAMODB_ITEM_BYTES_MAX);
    assert_eq!(fits.overflow(&bucket, seat(1, 3)), None);
    let candidate = candidate_of(DYNAMODB_ITEM_BYTES_MAX + 1);
    let overflow = candidate.overflow(&bucket, seat(1, 3)).unwrap();
    assert_eq!(overflow.bytes, candidate.body.len() as u64);
    let expected = "s3://bodies/00000000-0000-0000-0000-000000000001/3";
    assert_eq!(overflow.to_string(), expected);
}
