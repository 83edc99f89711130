//! Levels as they are stored: in manifests, and in files of designs.
//!
//! A level names its tables' filter and its regions' filter. Before, one field `filter` named whichever of
//! the two a level had. Both forms are read; a level is always written in the new one. A level in a mixture
//! of them is refused, since nothing says which of them was meant.

use crate::design::{Compression, Format, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec};
use serde::Deserialize;

/// A level in either form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredLevel {
    fanout_bits: u8,
    runs: u16,
    format: Format,
    index: IndexSpec,
    filter: Option<OneFilter>,
    table_filter: Option<TableFilterSpec>,
    region_filter: Option<RegionFilterSpec>,
    table_bytes: u64,
    /// Designs of earlier programs have none.
    #[serde(default)]
    compression: Compression,
}

/// The one filter that a level had, of its tables or of its regions.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum OneFilter {
    None,
    Bloom { bits_per_key: u8 },
    Cuckoo { fingerprint_bits: u8 },
    BloomCluster { bits_per_key: u8 },
    MultiLevelCuckoo { fingerprint_bits: u8 },
    Maplet { remainder_bits: u8 },
    Fragments { fragment_bits: u8 },
}

impl OneFilter {
    /// Returns the filters of tables and of regions that it stands for.
    fn split(self) -> (TableFilterSpec, RegionFilterSpec) {
        let of_tables = |filter| (filter, RegionFilterSpec::None);
        let of_regions = |filter| (TableFilterSpec::None, filter);
        match self {
            Self::None => of_tables(TableFilterSpec::None),
            Self::Bloom { bits_per_key } => of_tables(TableFilterSpec::Bloom { bits_per_key }),
            Self::Cuckoo { fingerprint_bits } => of_tables(TableFilterSpec::Cuckoo { fingerprint_bits }),
            Self::Fragments { fragment_bits } => of_tables(TableFilterSpec::Fragments { fragment_bits }),
            Self::BloomCluster { bits_per_key } => {
                of_regions(RegionFilterSpec::BloomCluster { bits_per_key })
            }
            Self::MultiLevelCuckoo { fingerprint_bits } => {
                of_regions(RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits })
            }
            Self::Maplet { remainder_bits } => of_regions(RegionFilterSpec::Maplet { remainder_bits }),
        }
    }
}

impl TryFrom<StoredLevel> for LevelSpec {
    type Error = String;

    fn try_from(stored: StoredLevel) -> Result<Self, String> {
        let StoredLevel { fanout_bits, runs, format, index, table_bytes, compression, .. } = stored;
        let (table_filter, region_filter) = match (stored.filter, stored.table_filter, stored.region_filter) {
            (None, Some(table_filter), Some(region_filter)) => (table_filter, region_filter),
            (Some(filter), None, None) => filter.split(),
            (Some(_), _, _) => {
                return Err("`filter` stands for both `table_filter` and `region_filter`; take it out".into());
            }
            (None, None, _) => {
                return Err(
                    "`table_filter` is missing; give it, \"none\" if tables are to have no filter".into()
                );
            }
            (None, Some(_), None) => {
                return Err(
                    "`region_filter` is missing; give it, \"none\" if regions are to have no filter".into()
                );
            }
        };
        Ok(Self { fanout_bits, runs, format, index, table_filter, region_filter, table_bytes, compression })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;
    use serde_json::{Value, json};

    /// A level of stepped merge with other fields in the place of its filters.
    fn level_with(filters: &Value) -> Result<LevelSpec, String> {
        let mut level = serde_json::to_value(presets::stepped_merge().levels[1]).unwrap();
        let fields = level.as_object_mut().unwrap();
        assert!(fields.remove("table_filter").is_some() && fields.remove("region_filter").is_some());
        fields.extend(filters.as_object().unwrap().clone());
        serde_json::from_value(level).map_err(|error| error.to_string())
    }

    #[test]
    fn levels_with_one_filter_are_read_as_pairs() {
        let cases = [
            (json!("none"), TableFilterSpec::None, RegionFilterSpec::None),
            (
                json!({"bloom": {"bits_per_key": 10}}),
                TableFilterSpec::Bloom { bits_per_key: 10 },
                RegionFilterSpec::None,
            ),
            (
                json!({"cuckoo": {"fingerprint_bits": 13}}),
                TableFilterSpec::Cuckoo { fingerprint_bits: 13 },
                RegionFilterSpec::None,
            ),
            (
                json!({"fragments": {"fragment_bits": 7}}),
                TableFilterSpec::Fragments { fragment_bits: 7 },
                RegionFilterSpec::None,
            ),
            (
                json!({"multi_level_cuckoo": {"fingerprint_bits": 12}}),
                TableFilterSpec::None,
                RegionFilterSpec::MultiLevelCuckoo { fingerprint_bits: 12 },
            ),
            (
                json!({"maplet": {"remainder_bits": 6}}),
                TableFilterSpec::None,
                RegionFilterSpec::Maplet { remainder_bits: 6 },
            ),
            (
                json!({"bloom_cluster": {"bits_per_key": 16}}),
                TableFilterSpec::None,
                RegionFilterSpec::BloomCluster { bits_per_key: 16 },
            ),
        ];
        for (filter, table_filter, region_filter) in cases {
            let old = level_with(&json!({ "filter": filter })).unwrap();
            let expected = LevelSpec { table_filter, region_filter, ..presets::stepped_merge().levels[1] };
            assert_eq!(old, expected);
            // What is written has the new form, and is read to the same.
            let written = serde_json::to_value(old).unwrap();
            assert!(written.get("filter").is_none() && written.get("table_filter").is_some(), "{written}");
            assert_eq!(serde_json::from_value::<LevelSpec>(written).unwrap(), expected);
        }
    }

    #[test]
    fn every_preset_is_read_as_it_was_written() {
        for (name, design) in presets::all().into_iter().chain(presets::slimdb_table_1()) {
            let text = serde_json::to_string(&design).unwrap();
            assert_eq!(serde_json::from_str::<crate::Design>(&text).unwrap(), design, "{name}");
            // Earlier programs refuse the field, so it stands only where it says something.
            assert!(!text.contains("compression"), "{name}");
            let compressed = design.with_compression(Compression::Dictionary);
            let text = serde_json::to_string(&compressed).unwrap();
            assert_eq!(text.matches(r#""compression":"dictionary""#).count(), design.levels.len(), "{name}");
            assert_eq!(serde_json::from_str::<crate::Design>(&text).unwrap(), compressed, "{name}");
        }
    }

    #[test]
    fn designs_of_earlier_programs_are_read() {
        let expected = crate::presets::siltstone();
        let mut old = serde_json::to_value(&expected).unwrap();
        let fields = old.as_object_mut().unwrap();
        for (new, old) in [("write_buffer", "head"), ("pushes_early", "hands_down_early")] {
            let value = fields.remove(new).unwrap();
            fields.insert(old.to_owned(), value);
        }
        assert_eq!(serde_json::from_value::<crate::Design>(old).unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_do() {
        let bloom = json!({"bloom": {"bits_per_key": 10}});
        let cases = [
            (json!({ "filter": bloom, "table_filter": bloom }), "take it out"),
            (json!({ "filter": bloom, "region_filter": "none" }), "take it out"),
            (json!({ "filter": "none", "table_filter": "none", "region_filter": "none" }), "take it out"),
            (json!({ "region_filter": "none" }), "`table_filter` is missing"),
            (json!({ "table_filter": bloom }), "`region_filter` is missing"),
            (json!({}), "`table_filter` is missing"),
            (json!({ "table_filter": {"maplet": {"remainder_bits": 6}}, "region_filter": "none" }), "maplet"),
            (json!({ "table_filter": "none", "region_filter": bloom }), "bloom"),
            (json!({ "filter": "none", "sieve": "none" }), "sieve"),
            (json!({ "filter": {"bloom": {"bits_per_key": 10, "colour": 1}} }), "colour"),
        ];
        for (filters, expected) in cases {
            let error = level_with(&filters).unwrap_err();
            assert!(error.contains(expected), "{filters}: {error}");
        }
    }
}
