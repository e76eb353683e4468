//! What an error says of a cargo feature that the build lacks.

/// The features that both functions have. The others are of the batch-processor alone.
const OF_BOTH: [&str; 2] = ["s3", "time-zones"];

/// Returns that the executable lacks a cargo feature, with the commands that build it in.
pub fn not_built(feature: &str) -> String {
    let of_functions = match OF_BOTH.contains(&feature) {
        true => feature.to_owned(),
        false => format!("batch-processor/{feature}"),
    };
    format!(
        "the executable was built without the cargo feature `{feature}`: build the functions with `cargo xtask package --features \
         {of_functions}`, or `local` with `cargo run --release -p local --features {feature}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_has_the_commands_that_build_the_feature_in() {
        for (feature, of_functions) in [("s3", "s3"), ("sftp", "batch-processor/sftp")] {
            let error = not_built(feature);
            for words in [
                format!("without the cargo feature `{feature}`"),
                format!("`cargo xtask package --features {of_functions}`"),
                format!("`cargo run --release -p local --features {feature}`"),
            ] {
                assert!(error.contains(&words), "{words} in {error}");
            }
        }
    }
}
