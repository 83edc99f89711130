//! Designs as people give them: a preset's name, or JSON.

use crate::error::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use siltstone_design::{Design, presets};

/// Characters that errors show of what was given.
const MOST_SHOWN: usize = 40;

/// Reads a design: the name of a preset or of a row of SlimDB's Table 1, or JSON. The JSON is a design as
/// `siltstone keyspaces --json` prints it, or what `siltstone advise --json` prints, whose best it then is.
///
/// ```
/// use siltstone::{parse_design, presets};
///
/// assert_eq!(parse_design("lean")?, presets::lean());
/// let json = serde_json::json!({ "best": { "design": presets::silt() } }).to_string();
/// assert_eq!(parse_design(&json)?, presets::silt());
/// assert!(parse_design("granite").unwrap_err().to_string().contains("lean"));
/// # Ok::<(), siltstone::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` where it is neither, or a design that is unsound.
pub fn parse_design(text: &str) -> Result<Design> {
    let text = text.trim();
    if !text.starts_with('{') {
        let known = || {
            let given: String = text.chars().take(MOST_SHOWN).collect();
            format!(
                "design: {given:?} is neither JSON, which begins with a brace, nor a preset: these are {}",
                presets::names()
            )
        };
        return Design::preset(text).ok_or_else(|| Error::invalid(known()));
    }
    let json: Value = serde_json::from_str(text)
        .map_err(|error| Error::invalid(format_args!("design: is no JSON: {error}")))?;
    let json = json.pointer("/best/design").or(json.get("design")).unwrap_or(&json);
    let design = Design::deserialize(json).map_err(|error| {
        Error::invalid(format_args!("design: is no design: {error}; `siltstone advise --json` prints one"))
    })?;
    design.check().map_err(Error::invalid)?;
    Ok(design)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse_design(text).unwrap_err().to_string()
    }

    #[test]
    fn designs_are_read_and_others_refused_with_the_reason() {
        for (name, design) in presets::all().into_iter().chain(presets::slimdb_table_1()) {
            assert_eq!(parse_design(name).unwrap(), design, "{name}");
            let json = serde_json::to_string_pretty(&design).unwrap();
            assert_eq!(parse_design(&format!("\n{json}\n")).unwrap(), design, "{name}");
        }
        assert!(error("").contains("these are siltstone"), "{}", error(""));
        assert!(error("[levels]\nruns = 4").contains("neither JSON"), "{}", error("[levels]\nruns = 4"));
        assert!(error(&"long".repeat(1000)).len() < 300);
        assert!(error("{").contains("no JSON"), "{}", error("{"));
        assert!(error("{\"levels\": []}").contains("no design"), "{}", error("{\"levels\": []}"));
        let unsound = Design { max_garbage: -1.0, ..presets::lean() };
        let text = serde_json::to_string(&unsound).unwrap();
        assert!(error(&text).contains("max_garbage"), "{}", error(&text));
    }
}
