//! Changes of schemas as operations of sessions and traces.

use super::*;
use siltstone::ErrorKind;

/// Schemas that all keys fit which [`key`] makes for `schema`, that one among them.
pub fn schemas_for(schema: Schema) -> Vec<Schema> {
    let mut all = vec![schema, Schema::Point, WHOLE, HASHED, Schema::fixed(2)];
    if let Schema::SemiSorted { prefix, suffix } = schema {
        let suffix = match suffix {
            SuffixOrder::Ordered => SuffixOrder::Hashed,
            SuffixOrder::Hashed => SuffixOrder::Ordered,
        };
        all.push(Schema::SemiSorted { prefix, suffix });
    }
    all
}

/// The schema that the keyspace is about to have.
pub fn schema_to_come(keyspace: &Keyspace) -> Option<Schema> {
    let change = keyspace.stats().schema_change?;
    (change.done < 1.0 && change.failure.is_none()).then_some(change.to)
}

/// Whether keys can have `prefix` by a schema.
pub fn is_prefix(schema: Schema, prefix: &[u8]) -> bool {
    schema.prefix_rule().is_some_and(|rule| rule.check_prefix(prefix).is_ok())
}

/// Asks for another design, or the one most like it that suits the schema; false where another schema is on
/// its way, and that is said.
pub fn redesign(keyspace: &Keyspace, design: &Design) -> siltstone::Result<bool> {
    let is_refused = schema_to_come(keyspace).is_some();
    unless_refused(is_refused, keyspace.redesign(fitting(design.clone(), keyspace.schema())))
}

fn unless_refused(is_refused: bool, outcome: siltstone::Result<()>) -> siltstone::Result<bool> {
    match outcome {
        Err(error) if is_refused && error.kind() == ErrorKind::InvalidInput => {
            assert!(error.to_string().contains("wait_for_schema"), "{error}");
            Ok(false)
        }
        outcome => {
            outcome?;
            assert!(!is_refused, "another schema is on its way");
            Ok(true)
        }
    }
}

/// Schemas that were asked for, by keyspace.
#[derive(Default)]
pub struct Asked(BTreeMap<String, Vec<Schema>>);

impl Asked {
    /// Asks for another schema, which all keys fit; false where another one is on its way, and that is said.
    pub fn change_schema(&mut self, keyspace: &Keyspace, schema: Schema) -> siltstone::Result<bool> {
        let is_refused = schema_to_come(keyspace).is_some_and(|to_come| to_come != schema);
        if !is_refused {
            // Where a call fails, it may have been noted all the same.
            self.0.entry(keyspace.name().to_owned()).or_default().push(schema);
        }
        let design = fitting(keyspace.design(), schema);
        unless_refused(is_refused, keyspace.change_schema(schema, Some(design)))
    }

    /// What has become of schemas since `model`: of the keyspaces that have another one than there, which
    /// somebody has asked for.
    pub fn changed(&self, db: &Db, model: &Model) -> Vec<Effect> {
        let mut changed = Vec::new();
        for (name, expected) in &model.keyspaces {
            let schema = db.get_keyspace(name).map_or(expected.schema, |keyspace| keyspace.schema());
            if schema != expected.schema {
                let is_asked = self.0.get(name).is_some_and(|asked| asked.contains(&schema));
                assert!(is_asked, "{name} has got {schema}, which nobody asked for");
                changed.push(Effect::Schema { keyspace: name.clone(), schema });
            }
        }
        changed
    }
}
