//! Many designs, one answer: the same operations on stores of every preset and of random valid designs.
//!
//! Debug builds check every version's invariants after every edit as well. `SILTSTONE_LONG=1` runs many more.

use crate::common::operations::{LARGE, Op, SMALL, operations};
use crate::common::session::Session;
use crate::common::*;

#[test]
fn every_design_gives_the_same_answers_in_the_same_order() {
    for seed in 0..if is_long() { 300 } else { 6 } {
        let mut rng = Rng::new(seed ^ 0x3E7A);
        let mix = if seed % 6 == 5 { LARGE } else { SMALL };
        let mut ops = operations(&mut rng, 200, &mix);
        for op in &mut ops {
            // How many steps a copy takes depends on the design.
            if let Op::ChangeSchema { waits, .. } = op {
                *waits = true;
            }
        }
        let mut designs = tiny_presets();
        designs.extend(log_store_designs());
        for _ in 0..4 {
            designs.push(random_design(&mut rng));
        }
        let mut first: Option<Vec<u64>> = None;
        for design in designs {
            let mut session = Session::new(std::slice::from_ref(&design));
            for op in &ops {
                session.run(op).unwrap_or_else(|error| panic!("seed {seed}, {design:?}: {error}"));
            }
            let problems = session.db().verify(&mut |_| {}).unwrap().problems;
            assert_eq!(problems, Vec::<String>::new(), "seed {seed}, {design:?}");
            let orders = session.orders;
            assert_eq!(*first.get_or_insert_with(|| orders.clone()), orders, "seed {seed}, {design:?}");
        }
    }
}
