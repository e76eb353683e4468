use proptest::prelude::*;

use super::*;

const LAST: &str = include_str!("../fixtures/last-chain-hash");
const DELIVERED: &str = include_str!("../fixtures/delivered.json");
const NOT_DELIVERED: &str = include_str!("../fixtures/not-delivered.json");
const NOT_AT_ALL: &str = include_str!("../fixtures/not-delivered-at-all.json");
const SCOPE: &str = r#"source "arn:aws:sqs:eu-west-1:123456789012:orders", batch key "k""#;

#[test]
fn proofs_show_what_they_are_about() {
    let between = |from: u32, to: u32| {
        format!("1970-01-01T00:00:0{from}.000Z and 1970-01-01T00:00:0{to}.000Z")
    };
    let delivered = format!(
        r#""e4-2" delivered in part 00000000-0000-0000-0000-000000000004/0 as record 2 between {}, {SCOPE}"#,
        between(4, 5)
    );
    assert_eq!(verify(DELIVERED, LAST), Ok(delivered));
    let absent = format!(
        r#""absent" not delivered between {}: 3 parts, {SCOPE}"#,
        between(2, 5)
    );
    assert_eq!(verify(NOT_DELIVERED, LAST), Ok(absent));
    let never = "between the beginning and the time of the chain hash: 5 parts";
    assert_eq!(
        verify(NOT_AT_ALL, LAST),
        Ok(format!(r#""absent" not delivered {never}, {SCOPE}"#))
    );
}

#[test]
fn parts_and_leaves_that_are_left_out_are_missed() {
    for proof in [DELIVERED, NOT_DELIVERED, NOT_AT_ALL] {
        let change = |pointer: &str, change: &dyn Fn(&mut Vec<Value>)| {
            let mut proof: Value = serde_json::from_str(proof).unwrap();
            if let Some(list) = proof.pointer_mut(pointer).and_then(Value::as_array_mut)
                && !list.is_empty()
            {
                change(list);
                verify(&proof.to_string(), LAST).unwrap_err();
            }
        };
        for list in [
            "/parts",
            "/later",
            "/parts/1/leaves",
            "/parts/2/leaves",
            "/parts/0/leaves",
        ] {
            change(list, &|list| drop(list.pop()));
            change(list, &|list| drop(list.remove(0)));
            change(list, &|list| list.push(list[0].clone()));
        }
        let mut without_next: Value = serde_json::from_str(proof).unwrap();
        if without_next
            .as_object_mut()
            .unwrap()
            .remove("next")
            .is_some()
        {
            verify(&without_next.to_string(), LAST).unwrap_err();
        }
    }
}

/// Returns the texts and numbers of a proof as JSON pointers.
fn values(value: &Value, at: &str, into: &mut Vec<String>) {
    match value {
        Value::Array(list) => {
            let each = list.iter().enumerate();
            each.for_each(|(index, one)| values(one, &format!("{at}/{index}"), into));
        }
        Value::Object(map) => map
            .iter()
            .for_each(|(name, one)| values(one, &format!("{at}/{name}"), into)),
        _ => into.push(at.to_owned()),
    }
}

/// Flips a bit of a value. A text whose bytes are no UTF-8 afterwards stays as it is.
fn flip(value: &mut Value, bit: usize) {
    match value {
        Value::String(text) => {
            let mut bytes = text.clone().into_bytes();
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            *text = String::from_utf8(bytes).unwrap_or_else(|_| text.clone());
        }
        Value::Number(number) => {
            *value = Value::from(number.as_u64().unwrap() ^ 1 << (bit % 63));
        }
        other => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_flipped_bit_is_found(which in 0..3_usize, value in any::<usize>(), bit in any::<usize>()) {
        let before = [DELIVERED, NOT_DELIVERED, NOT_AT_ALL][which];
        let original: Value = serde_json::from_str(before).unwrap();
        let mut all = Vec::new();
        values(&original, "", &mut all);
        let pointer = &all[value % all.len()];
        let mut changed = original.clone();
        flip(changed.pointer_mut(pointer).unwrap(), bit);
        let verified = verify(&changed.to_string(), LAST);
        // Another event may be absent from the same places. Then the proof is about that event, and says so.
        let is_of_another = pointer == "/eventId" && which > 0;
        prop_assert!(
            changed == original || verified.is_err() || is_of_another && verified != verify(before, LAST),
            "{pointer}: {verified:?}"
        );
    }

    #[test]
    fn another_last_hash_is_refused(which in 0..3_usize, bit in 0..64 * 7_usize) {
        let mut last = LAST.as_bytes().to_vec();
        last[bit / 7] ^= 1 << (bit % 7);
        let last = String::from_utf8(last).unwrap();
        prop_assert!(verify([DELIVERED, NOT_DELIVERED, NOT_AT_ALL][which], &last).is_err());
    }
}
