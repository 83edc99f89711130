//! The paper's printed claims, reproduced; where a claim is of a measurement that no model gives, the model's
//! own figure.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use siltstone_model::engines::leveldb::{Deletes, Form, LevelDb, Pick};
use siltstone_model::engines::rocksdb_leveled::rocksdb;
use siltstone_model::engines::{cola::Growing, sizes};
use siltstone_model::optimize::Optimizer;
use siltstone_model::read::{Ages, Queries};
use siltstone_model::{Direct, Popularity, Primitives};

fn uniform(keys: u64) -> Direct {
    Direct::new(&Popularity::uniform(keys).unwrap())
}

fn zipf(keys: u64) -> Direct {
    Direct::new(&Popularity::zipf(keys, 0.99).unwrap())
}

fn saved(engine: &LevelDb, keys: &Direct) -> f64 {
    let before = engine.write_amplification(keys).unwrap().write_amplification;
    1.0 - Optimizer::new(keys).level_sizes(engine).unwrap().write_amplification / before
}

/// Table 1, every row to its last printed digit but two.
#[test]
fn table_1() {
    let keys = uniform(100_000_000);
    let engine = LevelDb::with_defaults(1e8, 1000.0).unwrap();
    let rows = |engine: &LevelDb| -> Vec<f64> {
        engine.write_amplification(&keys).unwrap().steps.iter().map(|step| step.write_amplification).collect()
    };
    let best = Optimizer::new(&keys).level_sizes(&engine).unwrap();
    let optimized = LevelDb { level_sizes: best.level_sizes_items.clone(), ..engine.clone() };
    let printed = [
        (rows(&engine), [1.0, 1.0, 1.62, 4.77, 6.22, 6.32, 4.89], 25.82),
        (rows(&optimized), [1.0, 1.0, 3.85, 4.85, 4.82, 4.65, 3.5], 23.67),
    ];
    for (found, rows, total) in printed {
        assert_eq!(found.len(), rows.len());
        for (found, row) in found.iter().zip(rows) {
            assert!((found - row).abs() < 0.02, "{found} {row}");
        }
        assert!((found.iter().sum::<f64>() - total).abs() < 0.02);
    }
    for (found, size) in
        best.level_sizes_items.iter().zip([47_891.0, 321_368.0, 2_158_780.0, 14_603_814.0, 1e8])
    {
        assert!((found / size - 1.0).abs() < 1e-4, "{found} {size}");
    }
}

/// §3.4: 9.03e7. §4.3.2: 2.26e7 against 1.11e7.
#[test]
fn printed_examples_of_the_primitives() {
    assert!((zipf(100_000_000).merge(1e7, 9e7) / 9.03e7 - 1.0).abs() < 1e-3);
    let keys = uniform(100_000_000);
    let size = 10.0 * 1_048_576.0;
    assert!((keys.dinterval(size) / 2.26e7 - 1.0).abs() < 5e-3);
    assert!((keys.unique_inverse(size) / 1.11e7 - 1.0).abs() < 5e-3);
}

/// §6.3 says that level sizes save up to 9.4 %, measured on patched LevelDB. The model says 8 to 11 %, by key
/// count and skew; 9.4 % lies among its own figures.
#[test]
fn level_sizes_save_as_much_as_measured() {
    let mut all = Vec::new();
    for keys in [3_300_000, 10_000_000, 33_000_000, 100_000_000, 330_000_000] {
        let engine = LevelDb::with_defaults(keys as f64, 1000.0).unwrap();
        all.extend([saved(&engine, &uniform(keys)), saved(&engine, &zipf(keys))]);
    }
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    assert!(least > 0.06 && most > 0.09 && most < 0.12, "{all:?}");
}

/// §6.3 says 26.2 % with a buffer of a million items, again measured. The model as printed says nearly half,
/// for its error grows with the buffer at the default sizes, whose level 1 is far smaller than the buffer;
/// the refined form takes some of that back.
#[test]
fn large_buffers_save_more_in_the_model_than_measured() {
    let keys = uniform(10_000_000);
    let sizes = sizes::geometric(10_485.76, 10.0, 1e7).unwrap();
    let paper = LevelDb::new(1e6, 4.0, sizes);
    let v2 = LevelDb { form: Form::V2, ..paper.clone() };
    let (paper, v2) = (saved(&paper, &keys), saved(&v2, &keys));
    assert!((0.40..0.55).contains(&paper), "{paper}");
    assert!(v2 < paper && v2 > 0.262, "{v2}");
}

/// §7: round-robin writes up to 32.0 % less than picking the largest table.
#[test]
fn round_robin_saves_a_third() {
    let mut most = 0.0f64;
    for keys in [1_000_000u64, 3_300_000, 10_000_000, 33_000_000] {
        let sizes = sizes::geometric(10_485.76, 10.0, keys as f64).unwrap();
        let cost = |pick| {
            let engine = rocksdb(4194.304, sizes.clone(), pick);
            engine.write_amplification(&uniform(keys)).unwrap().write_amplification
        };
        most = most.max(1.0 - cost(Pick::RoundRobin) / cost(Pick::Largest));
    }
    assert!((0.28..0.36).contains(&most), "{most}");
}

/// §4.5: the worst-case analysis is 1.8 to 3.5 times too high.
#[test]
fn the_worst_case_is_far_off() {
    for keys in [3_300_000, 10_000_000, 100_000_000] {
        let engine = LevelDb::with_defaults(keys as f64, 1000.0).unwrap();
        for popularity in [uniform(keys), zipf(keys)] {
            let ratio =
                engine.worst_case() / engine.write_amplification(&popularity).unwrap().write_amplification;
            assert!((1.7..4.2).contains(&ratio), "{keys}: {ratio}");
        }
    }
}

/// Fig. 15: three levels at the best sizes cost not much more than four at a fixed growth factor.
#[test]
fn best_sizes_save_almost_a_level() {
    let keys = zipf(100_000_000);
    let fixed =
        |levels| LevelDb::new(4194.304, 4.0, sizes::with_level_count(10_485.76, levels, 1e8).unwrap());
    let best = |levels| Optimizer::new(&keys).level_sizes(&fixed(levels)).unwrap().write_amplification;
    let four = fixed(4).write_amplification(&keys).unwrap().write_amplification;
    let three = fixed(3).write_amplification(&keys).unwrap().write_amplification;
    assert!(best(3) < three * 0.6 && best(3) < four * 1.3, "{} {three} {four}", best(3));
}

#[test]
fn no_other_sizes_are_better() {
    // Every sequence of three inner sizes on a coarse grid, for layouts of very different shape.
    let keys = Direct::new(&Popularity::zipf(1_000_000, 0.8).unwrap());
    for (buffer, form) in [(4194.304, Form::Paper), (50_000.0, Form::Paper), (50_000.0, Form::V2)] {
        let sizes = vec![10_000.0, 60_000.0, 300_000.0, 1e6];
        let engine = LevelDb { form, ..LevelDb::new(buffer, 4.0, sizes) };
        let best = Optimizer::new(&keys).level_sizes(&engine).unwrap();
        let grid: Vec<f64> =
            (0..40).map(|i| 1_000.0 * 1.19f64.powi(i)).filter(|size| *size < 999_990.0).collect();
        for (i, a) in grid.iter().enumerate() {
            for (j, b) in grid.iter().enumerate().skip(i) {
                for c in grid.iter().skip(j) {
                    let cost = engine.total_with(&keys, &[*a, *b, *c, 1e6]);
                    assert!(cost >= best.write_amplification * (1.0 - 1e-9), "{a} {b} {c}: {cost} {best:?}");
                }
            }
        }
    }
}

#[test]
fn optima_ascend_and_never_lose_to_the_start() {
    for skew in [0.0, 0.6, 0.99, 1.2] {
        let keys = Direct::new(&Popularity::zipf(20_000_000, skew).unwrap());
        for buffer in [1_000.0, 20_000.0, 400_000.0] {
            for pick in [Pick::RoundRobin, Pick::Largest] {
                let sizes = sizes::geometric(10_485.76, 10.0, 2e7).unwrap();
                let engine = LevelDb { pick, ..LevelDb::new(buffer, 4.0, sizes) };
                let best = Optimizer::new(&keys).level_sizes(&engine).unwrap();
                assert!(best.level_sizes_items.is_sorted(), "{best:?}");
                let before = engine.write_amplification(&keys).unwrap().write_amplification;
                assert!(best.write_amplification <= before * (1.0 + 1e-12));
            }
        }
    }
}

#[test]
fn other_searches_find_what_they_promise() {
    let keys = uniform(100_000_000);
    let engine = LevelDb::with_defaults(1e8, 1000.0).unwrap();
    let optimizer = Optimizer::new(&keys);
    let levels = optimizer.level_count(&engine, 8).unwrap();
    assert_eq!(levels.level_sizes_items.len(), 6);
    assert!((levels.write_amplification - 22.9835).abs() < 1e-3);
    let growth = optimizer.growth(&engine).unwrap();
    assert!(growth.write_amplification < 24.0 && (4.5..5.5).contains(&growth.growth.unwrap()), "{growth:?}");
    let buffer = optimizer.write_buffer(&engine, 1e6, 15.0).unwrap();
    assert!((buffer.write_amplification - 15.0).abs() < 0.05, "{buffer:?}");
    let smaller = LevelDb { write_buffer: buffer.write_buffer_items * 0.98, ..engine.clone() };
    assert!(optimizer.level_sizes(&smaller).unwrap().write_amplification > 15.0);
    assert_eq!(optimizer.write_buffer(&engine, 1e4, 2.0).unwrap_err().parameter(), "target");
}

#[test]
fn deletes_reduce_what_is_written_below() {
    let keys = uniform(10_000_000);
    let engine = LevelDb::with_defaults(1e7, 1000.0).unwrap();
    let cost = |deletes| {
        LevelDb { deletes, ..engine.clone() }.write_amplification(&keys).unwrap().write_amplification
    };
    let none = cost(Deletes { fraction: 0.0, tombstone_size: 0.02 });
    assert_eq!(none, engine.write_amplification(&keys).unwrap().write_amplification);
    // Tombstones as large as items: only the last level is smaller.
    let large = cost(Deletes { fraction: 0.3, tombstone_size: 1.0 });
    assert!(large < none && large > none - 0.3 * 4.0, "{large} {none}");
    assert_eq!(
        LevelDb { deletes: Deletes { fraction: 1.0, tombstone_size: 0.1 }, ..engine }
            .check()
            .unwrap_err()
            .parameter(),
        "delete-fraction"
    );
}

#[test]
fn reads_end_where_the_data_is() {
    let popularity = Popularity::zipf(10_000_000, 0.99).unwrap();
    let engine = LevelDb::with_defaults(1e7, 1000.0).unwrap();
    let queries = Queries::default();
    let cost = queries.leveldb(&engine, &popularity).unwrap();
    let shares: f64 = cost.steps.iter().map(|step| step.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    // Uniform queries find as many keys in level 2 as the write model says live only from there up.
    let uniform = Queries { exponent: 0.0, ..queries }.leveldb(&engine, &popularity).unwrap();
    let upper: f64 = uniform.steps.iter().take(5).map(|step| step.share).sum();
    assert!(upper * 1e7 > engine.level_sizes[2] && upper * 1e7 < 2.0 * engine.level_sizes[2], "{upper}");
    // Spread ages make upper levels look emptier than mean ages do, by little.
    let mean = Queries { ages: Ages::Expected, ..queries }.leveldb(&engine, &popularity).unwrap();
    let ratio = mean.read_amplification / cost.read_amplification;
    assert!(ratio < 1.0 && ratio > 0.9, "{ratio}");
    // Filters leave one read for present keys and hardly any for absent ones.
    let filtered = Queries { false_positives: Some(0.01), absent: 0.5, ..queries };
    let filtered = filtered.leveldb(&engine, &popularity).unwrap();
    let absent = filtered.steps.last().unwrap();
    assert!((absent.reads - 0.01 * (1.5 + 4.0)).abs() < 1e-9 && absent.share == 0.5);
    assert!(filtered.read_amplification < 0.56, "{filtered:?}");
}

#[test]
fn lazier_merging_costs_reads() {
    let popularity = Popularity::uniform(10_000_000).unwrap();
    let engine = Growing { write_buffer: 4194.304, growth: 4, levels: 7 };
    let reads = |absent| {
        let queries = Queries { absent, ..Queries::default() };
        let cola = queries.cola(&engine, &popularity).unwrap().read_amplification;
        (cola, queries.samt(&engine, &popularity).unwrap().read_amplification)
    };
    // Levels of COLA are empty a quarter of the time; SAMT has 1.5 tables on average; the last level has one.
    let (cola, samt) = reads(1.0);
    assert!(
        (cola - (6.0 * 0.75 + 1.0)).abs() < 1e-9 && (samt - (6.0 * 1.5 + 1.0)).abs() < 1e-9,
        "{cola} {samt}"
    );
    // Keys that exist are often found earlier, in the table before last at the latest by half.
    let (present_cola, present_samt) = reads(0.0);
    assert!(present_cola < cola && present_samt < samt && present_samt > 1.5 * present_cola);
}
