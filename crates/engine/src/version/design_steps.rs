//! How the steps are written by which a keyspace gets another design or another schema; [`edit`](super::edit)
//! shows their bytes.

use super::designs::Chosen;
use super::edit::{Step, level_number, put_region};
use crate::codec::{Decoder, put_bytes};
use siltstone_succinct::code::varint;

impl Step {
    /// Encodes a step of a redesign.
    pub(super) fn encode_redesign(&self, out: &mut Vec<u8>) {
        out.push(15);
        match self {
            Self::Redesigned { design, sequence, at_ms, first_run, chosen } => {
                out.push(chosen.map_or(0, |chosen| if chosen.pushes_down { 4 } else { 3 }));
                put_bytes(out, design.as_bytes());
                let saved = chosen.map(|chosen| chosen.saved_millionths);
                let numbers = [*sequence, *at_ms, *first_run].into_iter().chain(saved);
                numbers.for_each(|n| varint::put_u64(out, n));
            }
            Self::Settled { at_ms } => {
                out.push(1);
                varint::put_u64(out, *at_ms);
            }
            Self::Gathered { level, path } => put_region(out, 2, *level, *path),
            _ => {}
        }
    }

    /// Decodes a step of a redesign, behind its kind.
    pub(super) fn decode_redesign(from: &mut Decoder<'_>) -> Option<Self> {
        Some(match from.u8()? {
            kind @ (0 | 3 | 4) => Self::Redesigned {
                design: from.string()?.to_owned(),
                sequence: from.varint()?,
                at_ms: from.varint()?,
                first_run: from.varint()?,
                chosen: match kind {
                    0 => None,
                    _ => Some(Chosen { saved_millionths: from.varint()?, pushes_down: kind == 4 }),
                },
            },
            1 => Self::Settled { at_ms: from.varint()? },
            2 => Self::Gathered { level: level_number(from)?, path: from.path()? },
            _ => return None,
        })
    }

    /// Encodes a step of a change of the schema.
    pub(super) fn encode_schema(&self, out: &mut Vec<u8>) {
        out.push(19);
        match self {
            Self::SchemaChange { schema, design, at_ms } => {
                out.push(0);
                [schema, design].into_iter().for_each(|text| put_bytes(out, text.as_bytes()));
                varint::put_u64(out, *at_ms);
            }
            Self::SchemaChanged { schema, design, sequence, at_ms } => {
                out.push(2);
                [schema, design].into_iter().for_each(|text| put_bytes(out, text.as_bytes()));
                [*sequence, *at_ms].into_iter().for_each(|n| varint::put_u64(out, n));
            }
            _ => out.push(1),
        }
    }

    /// Decodes the same, behind its kind.
    pub(super) fn decode_schema(from: &mut Decoder<'_>) -> Option<Self> {
        let text = |from: &mut Decoder<'_>| Some(from.string()?.to_owned());
        Some(match from.u8()? {
            0 => Self::SchemaChange { schema: text(from)?, design: text(from)?, at_ms: from.varint()? },
            1 => Self::SchemaKept,
            2 => Self::SchemaChanged {
                schema: text(from)?,
                design: text(from)?,
                sequence: from.varint()?,
                at_ms: from.varint()?,
            },
            _ => return None,
        })
    }
}
