//! Codecs: what is encoded comes back, what was not encoded is refused, and what gains nothing is left alone.

use super::dictionary::{Dictionary, DictionaryEncoder, learn};
use super::symbols::{SymbolEncoder, Symbols};
use super::trial::{Chosen, Sample, choose, have_nothing_in_common};
use super::*;
use proptest::prelude::*;

/// Records such as programs write.
fn records(count: u32) -> Vec<Vec<u8>> {
    let record = |n: u32| {
        let mixed = n.wrapping_mul(0x9e37_79b9);
        format!(
            "{{\"id\":{mixed},\"path\":\"/usr/share/doc/package-{}/file-{n}.txt\",\"owner\":\"user{}\",\"size\":{}}}",
            mixed % 97,
            mixed % 13,
            mixed >> 12
        )
    };
    (0..count).map(|n| record(n).into_bytes()).collect()
}

/// Values without a pattern, as vectors of floats have.
fn noise(count: u64) -> Vec<Vec<u8>> {
    let word = |n: u64| {
        (n ^ 0x5eed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    (0..count).map(|n| (0..32).flat_map(|part| word(n * 32 + part).to_le_bytes()).collect()).collect()
}

fn slices(parts: &[Vec<u8>]) -> Vec<&[u8]> {
    parts.iter().map(Vec::as_slice).collect()
}

fn chosen(keys: &[Vec<u8>], values: &[Vec<u8>], is_all: bool) -> Option<Chosen> {
    choose(&Sample { keys: slices(keys), values: slices(values), is_all, copies: 2 })
}

/// Parts that are like those of a sample, unlike them, and in between.
fn any_part() -> impl Strategy<Value = Vec<u8>> {
    let records = records(50);
    let of_record = (0..records.len(), any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let cut = of_record.prop_map(move |(number, from, length)| {
        let record = &records[number];
        let from = from.index(record.len());
        record[from..from + length.index(record.len() - from + 1)].to_vec()
    });
    prop_oneof![
        cut.clone(),
        proptest::collection::vec(any::<u8>(), 0..300),
        proptest::collection::vec(250u8.., 0..40),
        (any::<u8>(), 0usize..100_000).prop_map(|(byte, count)| vec![byte; count]),
        (cut, proptest::collection::vec(any::<u8>(), 0..10), 1usize..20).prop_map(|(part, noise, count)| [
            part, noise
        ]
        .concat()
        .repeat(count)),
    ]
}

proptest! {
    #[test]
    fn parts_of_keys_come_back(parts in proptest::collection::vec(any_part(), 1..20), other in any_part()) {
        let sample = records(200);
        let encoder = SymbolEncoder::train(&slices(&sample)).unwrap();
        let mut bytes = Vec::new();
        encoder.symbols().to_bytes(&mut bytes);
        let mut from = Decoder::new(&bytes);
        let symbols = Symbols::decode(&mut from).unwrap();
        prop_assert!(from.is_empty() && symbols == encoder.symbols());
        for part in &parts {
            let encoded = encoder.encode(part);
            prop_assert!(encoded.len() <= part.len() + usize::from(!part.is_empty()));
            let mut decoded = b"before".to_vec();
            prop_assert!(symbols.decode_onto(&encoded, &mut decoded).is_some());
            prop_assert_eq!(&decoded[6..], &part[..]);
            for wanted in parts.iter().chain([&other, &part[..part.len() / 2].to_vec(), &[&part[..], b"\0"].concat()]) {
                let same = part.iter().zip(wanted).take_while(|(a, b)| a == b).count();
                prop_assert_eq!(symbols.compare(&encoded, wanted), Some((same, part == wanted)));
            }
        }
    }

    #[test]
    fn values_come_back(values in proptest::collection::vec(any_part(), 1..20), most_bytes in 0usize..5000) {
        let sample = records(100);
        let mut encoder = DictionaryEncoder::new(learn(&slices(&sample), most_bytes));
        let mut bytes = Vec::new();
        encoder.dictionary().to_bytes(&mut bytes);
        let dictionary = Dictionary::decode(&mut Decoder::new(&bytes)).unwrap();
        prop_assert_eq!(&dictionary, &encoder.dictionary());
        let (mut encoded, mut decoded) = (b"left from before".to_vec(), b"as well".to_vec());
        for value in &values {
            encoder.encode(value, &mut encoded);
            prop_assert!(encoded.len() <= value.len() + usize::from(!value.is_empty()));
            prop_assert!(dictionary.decode_into(&encoded, &mut decoded).is_some());
            prop_assert_eq!(&decoded, value);
        }
    }

    #[test]
    fn nonsense_is_refused_or_decoded_but_never_panics(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(255), 0u8..20], 0..200), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        // Sound codecs with nonsense to decode, and codecs with one wrong byte.
        let sample = records(60);
        let mut codec = chosen(&sample, &sample, false).unwrap().codec.to_bytes();
        let sound = Codec::from_bytes(&codec).unwrap();
        let at = at.index(codec.len());
        codec[at] = byte;
        for codec in [Some(sound), Codec::from_bytes(&codec).ok(), Codec::from_bytes(&bytes).ok()].into_iter().flatten() {
            check_decoding(&codec, &bytes);
        }
    }
}

/// Decodes `bytes` as a part of a key and as a value, and checks that the results are bounded and agree.
fn check_decoding(codec: &Codec, bytes: &[u8]) {
    assert_eq!(Codec::from_bytes(&codec.to_bytes()).as_ref(), Ok(codec));
    if let Some(symbols) = &codec.keys {
        let mut key = Vec::new();
        let decoded = symbols.decode_onto(bytes, &mut key);
        assert!(key.len() <= 8 * bytes.len());
        if decoded.is_some() {
            assert_eq!(symbols.compare(bytes, &key), Some((key.len(), true)));
        }
        let _ = symbols.compare(bytes, b"https://");
    }
    if let Some(dictionary) = &codec.values {
        let mut value = Vec::new();
        let _ = dictionary.decode_into(bytes, &mut value);
        assert!(value.len() <= 255 * bytes.len());
    }
}

#[test]
fn a_claim_of_a_long_value_allocates_nothing() {
    let mut encoder = DictionaryEncoder::new(b"a dictionary".to_vec());
    let mut stored = Vec::new();
    siltstone_succinct::code::varint::put_u64(&mut stored, u64::MAX);
    stored.extend_from_slice(&[0xff; 40]);
    let mut value = Vec::new();
    assert_eq!(encoder.dictionary().decode_into(&stored, &mut value), None);
    assert_eq!(value.capacity(), 0);
    // A length that is not that of what comes out is refused too.
    encoder.encode(&b"a dictionary, a dictionary, a dictionary".repeat(3), &mut stored);
    stored[0] += 1;
    assert_eq!(encoder.dictionary().decode_into(&stored, &mut value), None);
}

#[test]
fn codecs_that_are_cut_off_or_too_long_are_refused() {
    let sample = records(300);
    let bytes = chosen(&sample, &sample, false).unwrap().codec.to_bytes();
    for length in 0..bytes.len() {
        assert!(Codec::from_bytes(&bytes[..length]).is_err(), "{length} of {}", bytes.len());
    }
    assert!(Codec::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
    assert!(Codec::from_bytes(&[0]).is_err() && Codec::from_bytes(&[4]).is_err());
}

#[test]
fn records_shrink_to_half_and_noise_is_left_alone() {
    let (records, noise) = (records(800), noise(300));
    let both = chosen(&records, &records, false).unwrap();
    assert!(both.keys.is_some() && both.values.is_some() && both.ratio > 2.0, "{}", both.ratio);
    assert!(chosen(&noise, &noise, false).is_none());
    assert!(chosen(&[], &[], true).is_none());
    let values = chosen(&noise, &records, false).unwrap();
    assert!(values.keys.is_none() && values.values.is_some());
    let keys = chosen(&records, &noise, false).unwrap();
    assert!(keys.keys.is_some() && keys.values.is_none());
    // Of few entries the codec itself takes more than they save.
    let few = &records[..3];
    assert!(chosen(few, few, true).is_none());
}

#[test]
fn a_first_look_spares_noise_the_trial_and_records_never() {
    let (records, noise) = (records(800), noise(300));
    assert!(have_nothing_in_common(&slices(&noise)));
    assert!(!have_nothing_in_common(&slices(&records)));
    // A few records among the noise are worth the trial.
    let mixed = noise.iter().zip(&records).enumerate();
    let mixed: Vec<_> =
        mixed.map(|(n, (noise, record))| if n % 4 == 0 { record } else { noise }.clone()).collect();
    assert!(!have_nothing_in_common(&slices(&mixed)));
    // What is too little to look at in part is tried, and so are values that come before deleted items.
    assert!(!have_nothing_in_common(&slices(&noise[..70])));
    let before_deleted = [noise, vec![Vec::new(); 300]].concat();
    assert!(!have_nothing_in_common(&slices(&before_deleted[240..])));
    assert!(!have_nothing_in_common(&[]));
}

#[test]
fn dictionaries_hold_what_several_values_have() {
    let records = records(800);
    let dictionary = learn(&slices(&records), 4096);
    let holds = |part: &[u8]| dictionary.windows(part.len()).any(|window| window == part);
    assert!(holds(b"/usr/share/doc/package-") && holds(b"\"owner\":\"user"));
    assert!(dictionary.len() <= 4096);
}
