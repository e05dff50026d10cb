//! The functions that only forward, made from the table. Those that get a context adopt it on the way.

use crate::abi::table::symbols;
use crate::abi::*;
use crate::boundary::counting;
use crate::interpose::context;
use crate::provider::real;

/// What a caller sees when the provider lacks a function: errno is EOPNOTSUPP, the value is the function's own
/// way to fail.
macro_rules! absent {
    (errno) => {{
        $crate::boundary::set_errno(libc::EOPNOTSUPP);
        libc::EOPNOTSUPP
    }};
    (minus1) => {{
        $crate::boundary::set_errno(libc::EOPNOTSUPP);
        -1
    }};
    (negated) => {{
        $crate::boundary::set_errno(libc::EOPNOTSUPP);
        (-libc::EOPNOTSUPP) as _
    }};
    (zero) => {{
        $crate::boundary::set_errno(libc::EOPNOTSUPP);
        0
    }};
    (null) => {{
        $crate::boundary::set_errno(libc::EOPNOTSUPP);
        core::ptr::null_mut()
    }};
    (unknown) => {{
        $crate::boundary::set_errno(libc::EOPNOTSUPP);
        c"unknown".as_ptr()
    }};
    (void) => {
        $crate::boundary::set_errno(libc::EOPNOTSUPP)
    };
}
pub(crate) use absent;

macro_rules! forwarders {
    (
        forwarded { $($node:literal fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, fails $how:ident;)* }
        adopting { $($node_a:literal fn $name_a:ident($context:ident: $ty_c:ty $(, $arg_a:ident: $ty_a:ty)*) -> $ret_a:ty, fails $how_a:ident;)* }
        $($rest:tt)*
    ) => {
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
                match real::$name() {
                    // SAFETY: the caller's promises to this function are those that the real one asks for.
                    Some(function) => unsafe { function($($arg),*) },
                    None => absent!($how),
                }
            }
        )*
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C-unwind" fn $name_a($context: $ty_c $(, $arg_a: $ty_a)*) -> $ret_a {
                if counting() {
                    // SAFETY: the caller passes an open context, as the real function demands.
                    unsafe { context::adopt($context) };
                }
                match real::$name_a() {
                    // SAFETY: the caller's promises to this function are those that the real one asks for.
                    Some(function) => unsafe { function($context $(, $arg_a)*) },
                    None => absent!($how_a),
                }
            }
        )*
    };
}

symbols!(forwarders);
