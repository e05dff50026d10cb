//! For tests: what the SA, programs and the daemon say, how strangers spoil it, and what has to hold all the same.
//!
//! * [`mod@captures`], [`messages`]: samples that are valid.
//! * [`mutate`]: the same, spoilt; by a seed, so that a failure comes again.
//! * [`sessions`]: what a program sends from its Hello on, and what a daemon must make of it.
//! * [`steps`]: what several strangers do, as bytes.
//! * [`holds`]: what is true of all bytes.
//!
//! The tests of the crates use it, and the fuzz targets in `fuzz/`, whose first inputs are these samples.

#![forbid(unsafe_code)]

pub mod captures;
pub mod holds;
pub mod messages;
pub mod mutate;
pub mod sessions;
pub mod steps;

pub use captures::captures;
pub use mutate::Random;

/// A function that names each variant of an enum, and the list of all names. The match has no rest: a variant that is
/// not there does not compile, so that a test that wants to see all names wants to see all variants.
///
/// ```
/// ibv_sa_samples::names!(name_of, NAMES, Option<u8> { Some(_) => "some", None => "none" });
/// assert_eq!((name_of(&None), NAMES), ("none", &["some", "none"][..]));
/// ```
#[macro_export]
macro_rules! names {
    ($function:ident, $list:ident, $enum:ty { $($variant:pat => $name:literal),+ $(,)? }) => {
        const $list: &[&str] = &[$($name),+];

        fn $function(value: &$enum) -> &'static str {
            match value {
                $($variant => $name),+
            }
        }
    };
}

/// So many rounds, and 25 times as many with SOAK set.
pub fn scaled(count: u64) -> u64 {
    if std::env::var_os("SOAK").is_some() { count * 25 } else { count }
}
