//! Where keys go, under each rule.

use super::*;
use proptest::prelude::*;

fn encoder(prefix: PrefixRule, suffix: SuffixOrder) -> Encoder {
    Encoder::new(Schema::SemiSorted { prefix, suffix }, HashSecret([9; 16]))
}

#[test]
fn delimiters_end_the_prefix_and_belong_to_it() {
    let e = encoder(PrefixRule::Delimiter { byte: b'/', count: 2 }, SuffixOrder::Ordered);
    assert_eq!(e.encode(b"a/b/c/d").unwrap().prefix(), b"a/b/");
    assert_eq!(e.encode(b"//").unwrap().prefix(), b"//");
    assert_eq!(e.encode(b"a/b").unwrap_err(), KeyError::NoDelimiter { byte: b'/', count: 2 });
    assert!(e.encode_prefix(b"a/b/").is_ok());
    assert!(e.encode_prefix(b"a/").is_err());
    assert!(e.encode_prefix(b"a/b/c").is_err());
}

#[test]
fn bad_keys_say_what_to_do() {
    let e = encoder(PrefixRule::Fixed { bytes: 8 }, SuffixOrder::Hashed);
    assert_eq!(e.encode(b"").unwrap_err(), KeyError::Empty);
    assert_eq!(e.encode(&[0; 65_536]).unwrap_err(), KeyError::TooLong { bytes: 65_536 });
    assert!(e.encode(&[0; 65_535]).is_ok());
    assert!(e.encode(b"seven..").unwrap_err().to_string().contains("prefix of 8 bytes"));
    assert_eq!(e.encode_prefix(b"nine.....").unwrap_err().to_string().matches("prefix").count(), 2);
    assert_eq!(e.encode_suffix_bound(b"x").unwrap_err(), KeyError::NotOrdered);
    let point = Encoder::new(Schema::Point, HashSecret([0; 16]));
    assert_eq!(point.encode_prefix(b"p").unwrap_err(), KeyError::NotSemiSorted);
}

#[test]
fn keys_of_one_route_lie_together() {
    let e = encoder(PrefixRule::Routed { bits: 14, width: 2 }, SuffixOrder::Ordered);
    let key = |route: u16, key: &[u8]| [&route.to_be_bytes()[..], &[0, key.len() as u8], key].concat();
    let mut places = std::collections::BTreeSet::new();
    for route in [0, 1, 77, 16_383] {
        for n in 0..50u8 {
            let key = [key(route, &[n]), b"suffix".to_vec()].concat();
            let place = e.encode(&key).unwrap().digest.hi;
            assert_eq!(place >> 50, u64::from(route));
            assert_eq!(e.encode_prefix(&key[..5]), Ok(place));
            let first = e.encode(&key[..5]).unwrap();
            let after = e.encode_after(&key, 5, (first.digest, first.prefix_len)).unwrap();
            let again = e.encode_again(&key, after.digest).unwrap();
            assert_eq!((after.digest.hi, again.fingerprint), (place, after.fingerprint));
            places.insert(place);
        }
    }
    assert_eq!(places.len(), 200);
    let refused = KeyError::RouteTooLarge { route: 16_384, bits: 14 };
    assert_eq!(e.encode(&key(16_384, b"k")).unwrap_err(), refused);
}

#[test]
fn rules_of_the_programs_own_need_to_be_given() {
    fn first_digit(key: &[u8]) -> Option<usize> {
        key.iter().position(u8::is_ascii_digit).map(|at| at + 1)
    }
    let name = RuleName::new("first-digit").unwrap();
    let bare = encoder(PrefixRule::Named(name), SuffixOrder::Ordered);
    assert_eq!(bare.encode(b"ab1c").unwrap_err(), KeyError::UnknownRule(name));
    assert!(bare.with_rules(&PrefixRules::default()).is_err());
    let rules = PrefixRules::default().with("first-digit", first_digit).unwrap();
    let e = bare.with_rules(&rules).unwrap();
    assert_eq!(e.encode(b"ab1c").unwrap().prefix(), b"ab1");
    assert_eq!(e.encode(b"abc").unwrap_err(), KeyError::RefusedByRule(name));
    assert!(e.encode_prefix(b"ab1").is_ok() && e.encode_prefix(b"ab1c").is_err());
}

#[test]
fn keys_after_others_are_encoded_as_by_themselves() {
    let rules = [
        PrefixRule::LastDelimiter { byte: b'/' },
        PrefixRule::AllButLast { bytes: 2 },
        PrefixRule::LengthPrefixed { width: 1 },
        PrefixRule::WholeKey,
    ];
    let keys: [&[u8]; 5] = [b"\x01/a/b", b"\x01/a/b/c", b"\x01/a/bcd", b"\x02/a/bcd", b"\x02/a/"];
    for rule in rules {
        let e = encoder(rule, SuffixOrder::Ordered);
        for pair in keys.windows(2) {
            let [first, second] = pair else { unreachable!() };
            let before = e.encode(first).unwrap();
            let shared = first.iter().zip(*second).take_while(|(x, y)| x == y).count();
            let after = e.encode_after(second, shared, (before.digest, before.prefix_len)).unwrap();
            let alone = e.encode(second).unwrap();
            assert_eq!((after.digest, after.prefix_len), (alone.digest, alone.prefix_len), "{rule}");
            for order in [SuffixOrder::Ordered, SuffixOrder::Hashed] {
                let e = encoder(rule, order);
                let alone = e.encode(second).unwrap();
                let again = e.encode_again(second, alone.digest).unwrap();
                assert_eq!((again.digest, again.fingerprint), (alone.digest, alone.fingerprint), "{rule}");
                assert_eq!((again.key, again.prefix_len), (alone.key, alone.prefix_len), "{rule}");
            }
        }
    }
}

proptest! {
    #[test]
    fn ordered_suffixes_keep_byte_order(
        prefix in proptest::collection::vec(any::<u8>(), 4),
        a in proptest::collection::vec(0u8..3, 0..20),
        b in proptest::collection::vec(0u8..3, 0..20),
    ) {
        let e = encoder(PrefixRule::Fixed { bytes: 4 }, SuffixOrder::Ordered);
        let (ka, kb) = ([prefix.clone(), a.clone()].concat(), [prefix, b.clone()].concat());
        prop_assert_eq!(e.encode(&ka).unwrap().order(&e.encode(&kb).unwrap()), a.cmp(&b));
        prop_assert!(e.encode_suffix_bound(&a).unwrap() <= e.encode(&ka).unwrap().digest.lo);
        let (first, second) = (e.encode(&ka).unwrap(), e.encode(&kb).unwrap());
        let shared = ka.iter().zip(&kb).take_while(|(x, y)| x == y).count();
        let after = e.encode_after(&kb, shared, (first.digest, first.prefix_len)).unwrap();
        prop_assert_eq!((after.digest, after.fingerprint, after.prefix_len),
            (second.digest, second.fingerprint, second.prefix_len));
    }

    #[test]
    fn every_schema_orders_totally(keys in proptest::collection::vec(
        proptest::collection::vec(0u8..2, 4..12), 3)
    ) {
        for suffix in [SuffixOrder::Hashed, SuffixOrder::Ordered] {
            let e = encoder(PrefixRule::Fixed { bytes: 3 }, suffix);
            let k: Vec<_> = keys.iter().map(|k| e.encode(k).unwrap()).collect();
            prop_assert_eq!(k[0].order(&k[1]).is_eq(), keys[0] == keys[1]);
            prop_assert_eq!(k[0].order(&k[1]), k[1].order(&k[0]).reverse());
            if k[0].order(&k[1]).is_le() && k[1].order(&k[2]).is_le() {
                prop_assert!(k[0].order(&k[2]).is_le());
            }
        }
    }
}
