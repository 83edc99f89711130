//! Events in the hands of the `tracing` crate: `cargo test -p siltstone --features tracing --test tracing`.
#![cfg(feature = "tracing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing should fail, and helpers are no tests to the linter"
)]

mod common;

use common::*;
use siltstone::KeyspaceOptions;
use siltstone::io::sim::{CallKind, Fault, FaultError, SimDisk};
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

type Fields = BTreeMap<&'static str, String>;

/// A span or an event, with its fields.
#[derive(Debug)]
struct Seen {
    name: &'static str,
    level: Level,
    fields: Fields,
    /// The number of the span that it lies in, or that it is.
    span: u64,
}

#[derive(Default)]
struct State {
    spans: Vec<Seen>,
    events: Vec<Seen>,
    entered: Vec<u64>,
    closed: u64,
}

/// Keeps all spans and events of the store.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<State>>);

struct Gather(Fields);

impl Visit for Gather {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        write!(text, "{value:?}").unwrap();
        self.0.insert(field.name(), text);
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "siltstone"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Gather(Fields::new());
        span.record(&mut fields);
        let mut state = self.0.lock().unwrap();
        let number = state.spans.len() as u64 + 1;
        let metadata = span.metadata();
        let seen = Seen { name: metadata.name(), level: *metadata.level(), fields: fields.0, span: number };
        state.spans.push(seen);
        Id::from_u64(number)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Gather(Fields::new());
        event.record(&mut fields);
        let mut state = self.0.lock().unwrap();
        let span = state.entered.last().copied().unwrap_or(0);
        let metadata = event.metadata();
        let seen = Seen { name: metadata.name(), level: *metadata.level(), fields: fields.0, span };
        state.events.push(seen);
    }

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().entered.push(span.into_u64());
    }

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().entered.pop();
    }

    fn try_close(&self, _: Id) -> bool {
        self.0.lock().unwrap().closed += 1;
        true
    }
}

#[test]
fn jobs_are_spans_and_their_ends_events_within() {
    let collector = Collector::default();
    let disk = SimDisk::new();
    let written = tracing::subscriber::with_default(collector.clone(), || {
        let db = open(&disk).unwrap();
        let design = Some(tiny("stepped-merge"));
        let users = db.keyspace("users", KeyspaceOptions { design, ..KeyspaceOptions::default() }).unwrap();
        disk.inject(Fault::new(CallKind::Create, FaultError::StorageFull).on_path(".table").times(1));
        users.put(b"ann", b"1").unwrap();
        db.flush().unwrap_err();
        for n in 0..200u32 {
            users.put(&n.to_be_bytes(), &[7; 100]).unwrap();
        }
        db.flush().unwrap();
        while db.step().unwrap() {}
        users.stats().levels.iter().map(|level| level.bytes_written).sum::<u64>()
    });
    let state = collector.0.lock().unwrap();
    assert!(state.spans.len() > 3);
    assert_eq!((state.spans.len(), state.events.len()), (state.events.len(), state.closed as usize));
    let mut bytes_written = 0;
    for (span, event) in state.spans.iter().zip(&state.events) {
        assert_eq!((span.name, span.level, event.span), ("job", Level::INFO, span.span));
        assert_eq!(
            (&span.fields["job"], &span.fields["work"]),
            (&event.fields["job"], &event.fields["work"])
        );
        assert_eq!(span.fields["keyspace"], "\"users\"");
        assert!(!span.fields["reason"].is_empty() && event.fields.contains_key("duration_us"));
        let number = |name: &str| event.fields.get(name).map_or(0, |text| text.parse::<u64>().unwrap());
        bytes_written += number("bytes_written");
    }
    assert_eq!(bytes_written, written);
    let failed = &state.events[0];
    assert_eq!(failed.level, Level::WARN);
    assert!(failed.fields["error"].contains("the disk is full"), "{failed:?}");
    assert!(failed.fields["message"].contains("[JOB 1] flush \"users\""), "{failed:?}");
    assert!(state.events[1..].iter().all(|event| event.level == Level::INFO));
}
