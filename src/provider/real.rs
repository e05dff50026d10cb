//! One accessor for each symbol of libibverbs: the provider's function, or `None` if it has none.

use crate::abi::table::symbols;
use crate::abi::*;
use crate::provider::Slot;

/// A C string literal from two literals' texts.
macro_rules! c_string {
    ($text:expr) => {
        match core::ffi::CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a symbol's name holds no NUL"),
        }
    };
}

macro_rules! accessors {
    (
        forwarded { $($forwarded:tt)* }
        commands { $($commands:tt)* }
        adopting { $($adopting:tt)* }
        interposed { $($interposed:tt)* }
        $($rest:tt)*
    ) => {
        accessors! { @each $($forwarded)* $($commands)* $($adopting)* $($interposed)* }
    };
    (@each $($node:literal fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, fails $how:ident;)*) => {
        #[allow(non_upper_case_globals)]
        mod slots {
            use crate::provider::Slot;

            $(pub(super) static $name: Slot = Slot::new(c_string!(stringify!($name)), Some(c_string!($node)));)*
        }

        /// All slots, to be filled together.
        pub(super) static ALL: &[&Slot] = &[$(&slots::$name),*];

        $(
            #[inline]
            pub(crate) fn $name() -> Option<unsafe extern "C-unwind" fn($($arg: $ty),*) -> $ret> {
                match slots::$name.address() {
                    0 => None,
                    // SAFETY: the address was looked up under this name and version node; the table has its
                    // signature from rdma-core's header of that version.
                    address => unsafe {
                        core::mem::transmute::<usize, Option<unsafe extern "C-unwind" fn($($ty),*) -> $ret>>(address)
                    },
                }
            }
        )*
    };
}

pub(crate) use c_string;

symbols!(accessors);
