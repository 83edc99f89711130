//! One function, compiled twice: as any processor runs it, and for those that count the ones of a word by one
//! instruction.
//!
//! Programs for x86-64 may not assume that instruction, so that compilers write a dozen others in its place.
//! Nearly every processor has it; it is asked once. Elsewhere the compiler knows what it may use.

/// Calls `$anywhere`, or `$counting`, the same function compiled for processors that count ones.
macro_rules! by_processor {
    ($self:ident, $anywhere:ident, $counting:ident, $($argument:expr),*) => {{
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has the instruction, the only one that the function asks for.
            return unsafe { $self.$counting($($argument),*) };
        }
        $self.$anywhere($($argument),*)
    }};
}

pub(crate) use by_processor;
