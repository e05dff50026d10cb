//! The functions that only forward, made from the table. Those that get a context adopt it on the way; those that give
//! the device a command notice when it fails as commands to a removed device do.

use crate::abi::table::symbols;
use crate::abi::*;
use crate::boundary::{bookkeeping, counting, errno};
use crate::interpose::jump::InContext;
use crate::interpose::{context, removal};
use crate::provider::real::{self, c_string};

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

/// Whether a call failed with EIO, by the function's own way to fail.
macro_rules! failed_with_eio {
    (errno, $result:ident) => {
        $result == libc::EIO
    };
    (minus1, $result:ident) => {
        $result == -1 && errno() == libc::EIO
    };
    (negated, $result:ident) => {
        $result as i64 == -i64::from(libc::EIO)
    };
    (null, $result:ident) => {
        $result.is_null() && errno() == libc::EIO
    };
}

macro_rules! forwarders {
    (
        forwarded { $($node:literal fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, fails $how:ident;)* }
        commands { $($node_c:literal fn $name_c:ident($object:ident: $ty_o:ty $(, $arg_c:ident: $ty_c2:ty)*) -> $ret_c:ty, fails $how_c:ident;)* }
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
            unsafe extern "C-unwind" fn $name_c($object: $ty_o $(, $arg_c: $ty_c2)*) -> $ret_c {
                let Some(function) = real::$name_c() else { return absent!($how_c) };
                // SAFETY: the caller's promises to this function are those that the real one asks for.
                let result = unsafe { function($object $(, $arg_c)*) };
                if failed_with_eio!($how_c, result) {
                    // SAFETY: the caller passes a live object, which a call that failed has left alive.
                    unsafe { command_failed($object.context(), c_string!(stringify!($name_c)).as_ptr()) };
                }
                result
            }
        )*
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C-unwind" fn $name_a($context: $ty_c $(, $arg_a: $ty_a)*) -> $ret_a {
                if counting() {
                    // SAFETY: the caller passes an open context, as the real function demands.
                    unsafe { context::adopt($context) };
                }
                let Some(function) = real::$name_a() else { return absent!($how_a) };
                // SAFETY: the caller's promises to this function are those that the real one asks for.
                let result = unsafe { function($context $(, $arg_a)*) };
                if failed_with_eio!($how_a, result) {
                    // SAFETY: the caller passes an open context.
                    unsafe { command_failed($context, c_string!(stringify!($name_a)).as_ptr()) };
                }
                result
            }
        )*
    };
}

/// # Safety
/// `context` is open; `function` is a C string of ours.
#[cold]
#[inline(never)]
unsafe extern "C" fn command_failed(context: *mut ibv_context, function: *const c_char) {
    bookkeeping(|ledger| {
        // SAFETY: as the caller promises.
        let (fd, function) = unsafe { ((*context).async_fd, core::ffi::CStr::from_ptr(function)) };
        removal::command_failed(ledger, context.addr(), fd, &function.to_string_lossy());
    });
}

symbols!(forwarders);
