//! Times of minutes as texts, in the terminal and in reports.

/// Returns a time of 100 s or more as minutes and seconds, such as `12 min 36 s`; [`None`] if it is shorter.
pub fn minutes(secs: f64) -> Option<String> {
    // Also 99.96 s, which would read `100 s`.
    if secs < 99.95 {
        return None;
    }
    let whole = secs.round() as u64;
    Some(format!("{} min {:02} s", whole / 60, whole % 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_minutes_is_written_with_its_seconds() {
        let texts = [99.9, 99.96, 756.4, 1_264.0, 119.7].map(minutes);
        let expected = [
            None,
            Some("1 min 40 s"),
            Some("12 min 36 s"),
            Some("21 min 04 s"),
            Some("2 min 00 s"),
        ];
        assert_eq!(texts.each_ref().map(|text| text.as_deref()), expected);
    }
}
