use super::*;
use proptest::prelude::*;

/// How far each repeat comes after its original, and whether it has the changed body.
fn repeats(workload: &Workload) -> Vec<(u64, bool)> {
    let mut originals = Vec::new();
    let mut repeats = Vec::new();
    for index in 0..workload.len() {
        let number = workload.event_number(index) as usize;
        match workload.is_duplicate(index) {
            true => repeats.push((index - originals[number], workload.is_changed(index))),
            false => originals.push(index),
        }
    }
    repeats
}

fn shares() -> impl Strategy<Value = Duplicates> {
    let kinds = (0.0..25.0, 0.0..25.0, 0.0..25.0, 0.0..24.9);
    prop_oneof![
        (0.0..100.0).prop_map(Duplicates::any),
        prop::sample::select(vec![0.0, 99.9, 50.0, 99.3]).prop_map(Duplicates::any),
        kinds.prop_map(|(any, immediate, delayed, changed)| Duplicates {
            any,
            immediate,
            delayed,
            changed
        }),
    ]
}

proptest! {
    #[test]
    fn duplicates_are_exact_and_repeat_an_earlier_original(
        seed: u64, messages in 1u64..5_000, duplicates in shares(),
    ) {
        let count = |percent: f64| (messages as f64 * percent / 100.0).round() as u64;
        let planned: u64 = duplicates.by_name().iter().map(|(_, percent)| count(*percent)).sum();
        let Ok(workload) = Workload::new(WorkloadConfig { duplicates, ..config(seed, messages, 0.0) }) else {
            prop_assert!(planned >= messages);
            return Ok(());
        };
        let mut originals = 0;
        let mut repeats = Vec::new();
        for index in 0..messages {
            let number = workload.event_number(index);
            if workload.is_duplicate(index) {
                repeats.push((number, workload.is_changed(index)));
                prop_assert!(number < originals, "message {index} repeats the later {number}");
            } else {
                prop_assert_eq!(number, originals);
                prop_assert!(!workload.is_changed(index));
                originals += 1;
            }
        }
        prop_assert_eq!(repeats.len() as u64, planned);
        prop_assert_eq!(originals, workload.unique());
        let changed = repeats.iter().filter(|(_, changed)| *changed).count() as u64;
        prop_assert_eq!(changed, count(duplicates.changed));
        let mut listed = Vec::new();
        workload.for_each_repeat(|number, changed| listed.push((number, changed)));
        prop_assert_eq!(listed, repeats);
    }

    #[test]
    fn every_body_is_json_of_the_planned_size_and_a_repeat_is_identical(
        seed: u64, min in 160usize..2_000, more in 0usize..500, sources in 1u32..50, index in 0u64..1_000,
    ) {
        let sizes = Sizes::Uniform { min, max: min + more };
        let duplicates = "any=30,changed=10".parse().unwrap();
        let workload = Workload::new(WorkloadConfig { sizes, duplicates, sources, ..config(seed, 1_000, 0.0) }).unwrap();
        let message = workload.message(index);
        prop_assert!((min..=min + more).contains(&message.body.len()));
        prop_assert_eq!(message.body.len(), workload.body_bytes(index));
        let json: serde_json::Value = serde_json::from_str(&message.body).unwrap();
        prop_assert_eq!(json["id"].as_str(), Some(message.event_id.as_str()));
        prop_assert_eq!(json["n"].as_u64(), Some(workload.event_number(index)));
        prop_assert_eq!(&json["source"], &format!("s{}", message.source));
        prop_assert_eq!(json.get("revision").is_some(), workload.is_changed(index));
        prop_assert_eq!(workload.number_of(&message.event_id), Some(workload.event_number(index)));
        let original = (0..=index).find(|each| workload.event_number(*each) == workload.event_number(index)).unwrap();
        prop_assert_eq!(workload.message(original).body == message.body, !workload.is_changed(index));
    }
}

#[test]
fn half_of_the_repeats_are_near_and_half_reach_back_to_the_start() {
    let workload = Workload::new(config(7, 100_000, 20.0)).unwrap();
    let distances = repeats(&workload).into_iter();
    let distances: Vec<u64> = distances.map(|(distance, _)| distance).collect();
    let near = distances.iter().filter(|d| **d <= NEAR_MESSAGES).count();
    assert!((9_000..11_500).contains(&near), "{near} of 20000 near");
    assert!(distances.iter().any(|d| *d > 90_000));
    assert!(distances.iter().any(|d| *d < 10));
}

#[test]
fn immediate_repeats_are_among_the_next_messages_and_delayed_ones_far_behind() {
    let of = |text: &str| {
        let duplicates = text.parse().unwrap();
        let config = WorkloadConfig {
            duplicates,
            ..config(7, 50_000, 0.0)
        };
        repeats(&Workload::new(config).unwrap())
    };
    let immediate = of("immediate=10");
    let mut all = immediate.iter();
    assert!(all.all(|(distance, _)| *distance <= NEXT_MESSAGES));
    let at_once = immediate.iter().filter(|(distance, _)| *distance == 1);
    let at_once = at_once.count();
    assert!((450..650).contains(&at_once), "{at_once} of 5000");

    // Within the first thousand messages, no event is far behind.
    let delayed = of("delayed=10");
    let near = |(distance, _): &&(u64, bool)| *distance < NEAR_MESSAGES - 64;
    assert!(delayed.iter().filter(near).count() < 110);
    assert!(delayed.iter().any(|(distance, _)| *distance > 40_000));

    let changed = of("changed=10");
    assert!(changed.iter().all(|(_, changed)| *changed));
    assert!(changed.iter().any(|(distance, _)| *distance < 100));
    assert!(changed.iter().any(|(distance, _)| *distance > 40_000));
}

#[test]
fn if_nearly_every_message_is_an_immediate_repeat_it_repeats_the_last_event() {
    let duplicates = "immediate=99".parse().unwrap();
    let workload = Workload::new(WorkloadConfig {
        duplicates,
        ..config(3, 1_000, 0.0)
    })
    .unwrap();
    let mut last = 0;
    for index in 0..workload.len() {
        let number = workload.event_number(index);
        if !workload.is_duplicate(index) {
            last = number;
        }
        assert!(number + NEXT_MESSAGES >= last);
    }
    assert_eq!(last, 9);
}

#[test]
fn errors_have_the_value_and_the_allowed_range() {
    let refusal = |change: fn(&mut WorkloadConfig)| {
        let mut config = config(1, 10, 0.0);
        change(&mut config);
        Workload::new(config).unwrap_err().to_string()
    };
    assert_eq!(
        refusal(|with| with.duplicates.any = 100.0),
        "the workload: wrong share of duplicates: got `100` %, expected 0 to below 100, for example 99.9"
    );
    assert!(refusal(|with| with.duplicates.any = f64::NAN).contains("`NaN`"));
    assert!(refusal(|with| with.duplicates.any = -1.0).contains("`-1`"));
    let both = refusal(|with| with.duplicates = "immediate=60,delayed=50".parse().unwrap());
    assert!(both.contains("`110`"));
    let all = refusal(|with| with.duplicates.any = 99.0);
    assert!(all.contains("expected a share that leaves an original"));
    assert!(refusal(|with| with.messages = 0).contains("1 to 1000000000"));
    assert!(refusal(|with| with.sources = 0).contains("sources: got `0`"));
    let skew = refusal(|with| with.skew = 9);
    assert!(skew.contains("skew of sources: got `9`, expected 0 to 8"));
    assert_eq!(
        refusal(|with| with.sizes = Sizes::Fixed(10)),
        "the workload: wrong body size: got `10` bytes, expected 68 to 1048576 for this workload"
    );
    let sized = refusal(|with| with.sizes = "300:1,2000000:1".parse().unwrap());
    assert!(sized.contains("got `2000000` bytes"));
    let sized = refusal(|with| with.sizes = Sizes::Uniform { min: 500, max: 400 });
    assert!(sized.contains("got `400` bytes, expected 500"));
    let sized = refusal(|with| with.sizes = Sizes::Weighted(Vec::new()));
    assert!(sized.contains("got `0` bytes"));
}

#[test]
fn the_smallest_size_in_the_error_is_accepted_and_a_smaller_one_is_not() {
    for duplicates in ["0", "any=10,changed=5"] {
        let at = |size| {
            Workload::new(WorkloadConfig {
                sizes: Sizes::Fixed(size),
                sources: 11,
                duplicates: duplicates.parse().unwrap(),
                ..config(255, 1_001, 0.0)
            })
        };
        let Err(WorkloadError::Size { min, .. }) = at(0) else {
            panic!("0 bytes were accepted")
        };
        let workload = at(min).unwrap();
        assert!((0..workload.len()).all(|index| workload.message(index).body.len() == min));
        assert!(at(min - 1).is_err());
    }
}

#[test]
fn ids_of_other_seeds_and_numbers_outside_the_plan_are_not_of_this_plan() {
    let workload = Workload::new(config(0xab, 10, 50.0)).unwrap();
    assert_eq!(workload.number_of("ab-4"), Some(4));
    for other in [
        "ab-5", "ac-4", "ab-04", "ab-", "ab-+4", "4", "", "AB-4", "ab-4 ",
    ] {
        assert_eq!(workload.number_of(other), None, "{other}");
    }
}

#[test]
fn a_burst_is_the_same_as_it_was() {
    // Bursts of earlier versions must stay auditable: this is the hash of all bodies of one, in order.
    let workload = Workload::new(config(7, 1_000, 20.0)).unwrap();
    let bodies: String = (0..workload.len())
        .map(|index| workload.message(index).body + "\n")
        .collect();
    let hash = "fa893ad6acab497e4b4aebb00a8e2370e20772dfef81b9f842c53bfc75153baa";
    assert_eq!(blake3::hash(bodies.as_bytes()).to_string(), hash);
}

fn config(seed: u64, messages: u64, duplicates_percent: f64) -> WorkloadConfig {
    WorkloadConfig {
        seed,
        messages,
        duplicates: Duplicates::any(duplicates_percent),
        ..WorkloadConfig::default()
    }
}
