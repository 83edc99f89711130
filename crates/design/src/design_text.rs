//! Designs as people give them: a preset's name, or JSON.

use crate::design::Design;
use crate::presets;
use serde::Deserialize;
use serde_json::Value;
use std::str::FromStr;

/// Reads a design: the name of a preset or of a row of SlimDB's Table 1, or JSON. The JSON is a design as
/// `siltstone keyspaces --json` prints it, or what `siltstone advise --json` prints, whose best it then is.
///
/// ```
/// use siltstone_design::{Design, presets};
///
/// assert_eq!("lean".parse(), Ok(presets::lean()));
/// let json = serde_json::json!({ "best": { "design": presets::silt() } }).to_string();
/// assert_eq!(json.parse(), Ok(presets::silt()));
/// assert!("granite".parse::<Design>().unwrap_err().contains("lean"));
/// ```
impl FromStr for Design {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if !text.starts_with('{') {
            return Self::preset(text)
                .ok_or_else(|| format!("there is no preset {text:?}; there are {}", presets::names()));
        }
        let json: Value = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
        let json = json.pointer("/best/design").or(json.get("design")).unwrap_or(&json);
        let design = Self::deserialize(json)
            .map_err(|error| format!("is no design: {error}; `siltstone advise --json` prints one"))?;
        design.check().map_err(|error| error.to_string())?;
        Ok(design)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Design>().unwrap_err()
    }

    #[test]
    fn designs_are_read_and_others_refused_with_the_reason() {
        for (name, design) in presets::all().into_iter().chain(presets::slimdb_table_1()) {
            assert_eq!(name.parse(), Ok(design.clone()), "{name}");
            let json = serde_json::to_string_pretty(&design).unwrap();
            assert_eq!(format!("\n{json}\n").parse(), Ok(design), "{name}");
        }
        assert!(error("").contains("there are siltstone"), "{}", error(""));
        assert!(error("{").contains("no JSON"), "{}", error("{"));
        assert!(error("{\"levels\": []}").contains("no design"), "{}", error("{\"levels\": []}"));
        let mut unsound = presets::lean();
        unsound.max_garbage = -1.0;
        let text = serde_json::to_string(&unsound).unwrap();
        assert!(error(&text).contains("max_garbage"), "{}", error(&text));
    }
}
